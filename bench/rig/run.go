package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/bench/result"
)

// modes are the modes of a run, in order.
var modes = []Mode{NoGRO, Wire, SameHost}

// Measure builds the topologies, measures, adds the samples to a run, and removes
// everything, even if ctx ends it early. A failed measurement is reported and left out; the
// run continues.
//
// Each repetition has new gateways: a process is up to 10 % faster or slower than another one of
// the same program for as long as it lives, which no number of repetitions within it averages out.
func (r *Rig) Measure(ctx context.Context, to *result.Run) error {
	l := fullLengths
	if r.Quick {
		l = quickLengths
	}
	if err := r.checkNames(); err != nil {
		return err
	}
	plan := r.plan(l)
	if len(plan) == 0 {
		return errors.New("nothing to measure: no test matches; list the tests and subjects with: strait bench peer --list")
	}
	run := &repetitions{Rig: r, plan: plan, start: time.Now(), to: to, peaks: make(map[string]float64)}
	for n := 1; n <= r.Repetitions; n++ {
		if err := run.repeat(ctx, n); err != nil {
			return err
		}
	}
	return run.addPeaks()
}

func (r *Rig) checkNames() error {
	var names []string
	for _, s := range r.known() {
		names = append(names, s.Name)
	}
	for _, name := range r.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no subject %q; use one of: %s", name, strings.Join(names, " "))
		}
	}
	return nil
}

// plan returns the requested measurements, of the optional ones if no usual one matches.
func (r *Rig) plan(l lengths) []test {
	plan := r.choose(allTests(l, r.customNames(), r.All))
	if len(plan) == 0 {
		plan = r.choose(allTests(l, r.customNames(), true))
	}
	return plan
}

// choose keeps the requested tests and subjects that can run.
func (r *Rig) choose(plan []test) (chosen []test) {
	asked := append(append(r.customNames(), nameBaseline), r.Only...)
	known := make(map[string]bool)
	for _, s := range r.known() {
		known[s.Name] = len(r.Only) == 0 || slices.Contains(asked, s.Name)
	}
	for _, t := range plan {
		t.subjects = slices.DeleteFunc(slices.Clone(t.subjects), func(name string) bool { return !known[name] })
		if len(t.subjects) > 0 && (r.Run == nil || r.Run(string(t.mode)+"/"+t.name)) {
			chosen = append(chosen, t)
		}
	}
	return chosen
}

// known returns all subjects that this run can have.
func (r *Rig) known() []*Subject {
	all := []*Subject{
		peerSubject(nameP, r.WireGuardGo),
		peerSubject(nameP1, r.WireGuardGo, "GOMAXPROCS=1"),
		straitSubject(nameStrait, r.strait, straitShape{}),
		straitSubject(nameStraitOver6, r.strait, straitShape{v6: true}),
		manyNodesSubject(r.strait),
		manyPeersSubject(r.strait),
		plainSubject(),
		overlaySubject(),
		wireGuardSubject(nameWireGuardGo, r.WireGuardGo),
	}
	if r.baseline != "" {
		all = append(all, straitSubject(nameBaseline, r.baseline, straitShape{}))
	}
	if r.kernelWireGuard {
		all = append(all, wireGuardSubject(nameWireGuardKernel, ""))
	}
	for _, p := range r.Custom {
		all = append(all, customSubject(p))
	}
	return all
}

func (r *Rig) subjects(plan []test) []*Subject {
	needed := make(map[string]bool)
	for _, t := range plan {
		for _, name := range t.subjects {
			needed[name] = true
		}
	}
	return slices.DeleteFunc(r.known(), func(s *Subject) bool { return !needed[s.Name] })
}

func (r *Rig) customNames() (names []string) {
	for _, p := range r.Custom {
		names = append(names, p.Name)
	}
	return names
}

// repetitions are those of all measurements of a plan.
type repetitions struct {
	*Rig
	plan  []test
	start time.Time
	done  int // measurements
	to    *result.Run
	peaks map[string]float64 // peak memory in bytes of a gateway, by subject
}

// repeat runs one repetition in all modes. Subjects alternate within each test, A B B A, so that
// drift on the machine affects all of them alike.
func (r *repetitions) repeat(ctx context.Context, n int) (err error) {
	settings := make(map[string]*setting)
	defer func() { err = errors.Join(err, removeAll(settings)) }()
	for _, s := range r.subjects(r.plan) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.report("build %s", s.Name)
		p, err := r.place(s)
		settings[s.Name] = p
		if err != nil {
			return err
		}
	}
	for _, mode := range modes {
		plan := slices.DeleteFunc(slices.Clone(r.plan), func(t test) bool { return t.mode != mode })
		if len(plan) == 0 {
			continue
		}
		for _, p := range settings {
			if err := p.setMode(mode); err != nil {
				return err
			}
		}
		for _, t := range plan {
			if err := r.one(ctx, t, n, settings); err != nil {
				return err
			}
			r.done++
			r.report("%3d %% %6s  %s %d/%d %s", 100*r.done/(len(r.plan)*r.Repetitions), time.Since(r.start).Round(time.Second), mode, n, r.Repetitions, t.name)
		}
	}
	return r.notePeaks(settings)
}

func (r *repetitions) one(ctx context.Context, t test, n int, settings map[string]*setting) error {
	order := slices.Clone(t.subjects)
	if n%2 == 0 {
		slices.Reverse(order)
	}
	for _, name := range order {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
		m, err := t.measure(r.Rig, settings[name])
		if err == nil {
			err = r.to.Add(result.Sample{Test: t.name, Subject: name, Mode: string(t.mode), Repetition: n, Metrics: m})
		}
		if err != nil {
			r.report("left out: %s %s %s: %v", t.mode, t.name, name, err)
		}
	}
	return nil
}

// notePeaks notes the peak memory of the gateways that end now, except for those of custom commands: the process of a
// command is usually a shell, and which of its children are gateways is not known.
func (r *repetitions) notePeaks(settings map[string]*setting) error {
	custom := r.customNames()
	for name, p := range settings {
		if slices.Contains(custom, name) {
			continue
		}
		for _, g := range p.processes {
			bytes, err := g.memory("VmHWM")
			if err != nil {
				return err
			}
			r.peaks[name] = max(r.peaks[name], bytes)
		}
	}
	return nil
}

func (r *repetitions) addPeaks() error {
	for _, name := range slices.Sorted(maps.Keys(r.peaks)) {
		err := r.to.Add(result.Sample{Test: testMemory, Subject: name, Repetition: 1, Metrics: metrics{unitMemory: r.peaks[name]}})
		if err != nil {
			return err
		}
	}
	return nil
}
