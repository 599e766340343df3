package verify

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPeeringIsJudgedWhenItHasSettled(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct {
		ready   time.Duration // when the Peering is; 0: at once
		takes   time.Duration
		outcome Outcome
	}{
		"ready":             {0, 0, Passed},
		"ready after 2.2 s": {2200 * time.Millisecond, 2500 * time.Millisecond, Passed},
		"never ready":       {time.Hour, settleTimeout, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, told := time.Now(), 0
				look := func(context.Context) ([]Check, bool, error) {
					c := Check{From: "a", Outcome: Failed, Detail: "no link is up"}
					if time.Since(began) >= is.ready {
						c.Outcome = Passed
					}
					return []Check{c, {From: "b", Outcome: Passed}}, true, nil
				}
				checks, up, err := settled(t.Context(), look, &Options{Say: func(string) { told++ }})
				if err != nil || !up || checks[0].Outcome != is.outcome || time.Since(began) != is.takes {
					t.Errorf("after %v: %+v, up %v, %v", time.Since(began), checks, up, err)
				}
				if waited := is.takes > 0; told > 1 || (told > 0) != waited {
					t.Errorf("said %d times", told)
				}
			})
		})
	}
}
