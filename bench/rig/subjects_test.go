//go:build lab

package rig

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/bench/rig/traffic"
)

func TestEverySubjectCarriesTrafficAndNothingIsLeft(t *testing.T) {
	r := newTestRig(t)
	run := result.New("test", result.ThisMachine("test"), time.Now())
	if err := r.Measure(context.Background(), run); err != nil {
		t.Fatal(err)
	}
	measured := medians(run)
	for _, subject := range []string{nameP, nameStrait, nameStraitOver6, namePlain, nameOverlay, nameWireGuardGo} {
		f := figure{tcpName(1, forth), NoGRO, subject, unitThroughput}
		if rate, ok := measured(f); !ok || rate <= 0 {
			t.Errorf("%s carried %v bit/s (measured: %v)", subject, rate, ok)
		}
		f.unit = unitCPU
		if cpu, ok := measured(f); !ok || cpu <= 0 {
			t.Errorf("%s cost %v CPU-s/GB (measured: %v)", subject, cpu, ok)
		}
	}
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	r := newTestRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	run := result.New("test", result.ThisMachine("test"), time.Now())
	if err := r.Measure(ctx, run); err == nil {
		t.Error("no error from a run that was cut short")
	}
}

func TestCustomSubjectCarriesTraffic(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, customSubject(Custom{"kernel", "testdata/kernel-gateways.sh"}))
	l := quickLengths
	for _, direction := range []string{forth, back} {
		m, err := tcp(1, direction, 0, l)(r, p)
		if err != nil || m[unitThroughput] <= 0 {
			t.Errorf("%s: %v, %v", direction, m, err)
		}
	}
}

func TestSubjectsThatDoNotCarryTrafficAreReported(t *testing.T) {
	r := newTestRig(t)
	broken := customSubject(Custom{"broken", "echo no gateway here >&2; exit 3"})
	p, err := r.place(broken)
	t.Cleanup(func() {
		if err := p.remove(); err != nil {
			t.Error(err)
		}
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"broken", "no gateway here", "exit status 3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
}

func TestFlowsTakeTurns(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, plainSubject())
	filter(t, p, "udp dport 7003 add @sources { ip saddr . udp sport }")
	m, err := r.manyFlows(p, 100, 64, 5000, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got := sources(t, p); got != 100 || m[unitPacketCPU] <= 0 {
		t.Errorf("want 100 flows, got %d; %v", got, m)
	}
}

func TestEveryConnectionIsOneTheOtherEndHasSeen(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, plainSubject())
	sender, _, err := r.twoEnds(p, p.a.pod, p.b.pod)
	if err != nil {
		t.Fatal(err)
	}
	before := passiveOpens(t, p.b.pod)
	l, err := sender.Connect(traffic.Connections{To: p.sees(p.b, 0), Parallel: 16, Duration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if got := passiveOpens(t, p.b.pod) - before; got != l.Count || got < 16 {
		t.Errorf("%d connections were measured, and %d were accepted", l.Count, got)
	}
}

// passiveOpens returns the number of TCP connections that a namespace has accepted (RFC
// 4022).
func passiveOpens(t *testing.T, at *namespace) (n int) {
	t.Helper()
	err := at.In(func() error {
		f, err := os.Open("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		defer f.Close()
		var names []string
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if fields[0] != "Tcp:" {
				continue
			}
			if names == nil {
				names = fields
				continue
			}
			for i, name := range names {
				if name == "PassiveOpens" {
					n, err = strconv.Atoi(fields[i])
					return err
				}
			}
		}
		return fmt.Errorf("no PassiveOpens in %s", f.Name())
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
