package gateway

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/test/logbuffer"
)

// The remote cluster causes problems, for instance with endpoints of an IP family that the gateway does not have.
func TestT10_ProblemsThatChangeAllTheTimeDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(logbuffer.Buffer)
		f := &follower{log: slog.New(slog.NewTextHandler(log, nil)), metrics: newMetrics()}
		lines := func() int { return strings.Count(log.String(), "\n") }
		for range 2 {
			f.logProblems([]translate.Problem{{Object: "ReceivedService web", Text: "3 of its addresses cannot be reached"}})
		}
		if lines() != 1 {
			t.Errorf("a problem that stays has %d lines", lines())
		}
		const minutes = 10
		for i := range minutes * 60 {
			f.logProblems([]translate.Problem{{Object: "ReceivedService web", Text: fmt.Sprint(i)}, {Object: "ReceivedService db", Text: fmt.Sprint(i)}})
			time.Sleep(time.Second)
		}
		// For each line, one says that there are more.
		if most := problemBurst + 2*minutes*60/10 + 2; lines() < problemBurst || lines() > most {
			t.Errorf("%d lines in %d minutes, at most %d", lines(), minutes, most)
		}
		if !strings.Contains(log.String(), "more problems") {
			t.Error("nothing says that lines are missing")
		}
	})
}
