package benchmark

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheCPUOfAProcessIsReadFromItsMetrics(t *testing.T) {
	page := "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total_other 9\nprocess_cpu_seconds_total 12.5\ngo_threads 7\n"
	got, err := processCPU(strings.NewReader(page))
	if err != nil || got != 12500*time.Millisecond {
		t.Errorf("%v, %v", got, err)
	}
	for _, broken := range []string{"", "go_threads 7\n", "process_cpu_seconds_total x\n"} {
		if got, err := processCPU(strings.NewReader(broken)); err == nil {
			t.Errorf("%q has %v", broken, got)
		}
	}
}

// Only selected tests run, and each fits the MTU of the peering.
func TestTestsFitThePeering(t *testing.T) {
	o := Options{Only: regexp.MustCompile("loss-search")}
	var names []string
	for _, test := range o.chosen(1390) {
		names = append(names, test.Name)
	}
	if want := []string{"udp/payload=64/loss-search", "udp/payload=1362/loss-search"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if all := (&Options{}).chosen(1390); len(all) != 8 {
		t.Errorf("%d tests", len(all))
	}
}
