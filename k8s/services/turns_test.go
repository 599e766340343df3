package services

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A remote cluster changes 2,000 Services, another one changes one, and this cluster two.
func TestT10_PeeringsTakeTurnsInTheWorkQueue(t *testing.T) {
	t.Parallel()
	queue := workQueue(newTurns(func(k key) []string {
		switch {
		case strings.HasPrefix(k.name, "shared"):
			return []string{"bad", "good"}
		case strings.HasPrefix(k.name, "own"):
			return nil
		}
		peering, _, _ := strings.Cut(k.name, "-")
		return []string{peering}
	}))
	defer queue.ShutDown()
	add := func(name string) { queue.Add(key{"shop", name}) }
	for n := range 2000 {
		add(fmt.Sprint("bad-", n))
	}
	for _, name := range []string{"good-1", "own-1", "own-2", "shared", "good-1", "bad-0"} {
		add(name)
	}
	if queue.Len() != 2004 {
		t.Errorf("%d keys wait, want each once, 2004", queue.Len())
	}
	var got []string
	for queue.Len() > 0 {
		k, _ := queue.Get()
		got = append(got, k.name)
		queue.Done(k)
	}
	if want := []string{"bad-0", "good-1", "own-1", "bad-1", "shared", "own-2", "bad-2"}; !slices.Equal(got[:len(want)], want) {
		t.Errorf("the order is %v, want %v", got[:len(want)], want)
	}
	if want := "bad-1999"; len(got) != 2004 || got[len(got)-1] != want {
		t.Errorf("%d keys, the last one %s; want all, %s last", len(got), got[len(got)-1], want)
	}
}
