package benchmark

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/operate/operator"
)

// Subjects.
const (
	subjectDirect  = "direct"
	subjectPeering = "peering"
)

// mode is the mode of all samples: pods of a cluster.
const mode = "pods"

// Options of a run.
type Options struct {
	Image            string // of the agents
	GatewayNamespace string
	Repetitions      int
	Quick            bool           // shorter and less precise, for a quick check
	Only             *regexp.Regexp // selects tests by name; nil: all
	Say              func(string)   // progress
}

// Run measures a peering and adds the samples to a run. Subjects alternate, and every other
// repetition is in reverse order, so that drift affects all alike. A failed test is not
// repeated, and the others continue. Nothing is left in the clusters, even when ctx ends.
func Run(ctx context.Context, a, b *operator.Side, o Options, to *result.Run) (err error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	mtu := int(a.Peering.Status.MTU)
	if mtu == 0 {
		return fmt.Errorf("%s: Peering %s does not carry packets yet; run strait status %[2]s", a.Name, a.Peering.Name)
	}
	tests := o.chosen(mtu)
	if len(tests) == 0 {
		return fmt.Errorf("no test matches %s; the tests are: %s", o.Only, Names(mtu))
	}
	costs, err := o.costs(ctx, a, b)
	if err != nil {
		return err
	}
	near, err := o.agentsOf(ctx, a, o.Image, nearPod, directPod)
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	defer func() { err = errors.Join(err, near.End(context.WithoutCancel(ctx))) }()
	far, err := o.agentsOf(ctx, b, o.Image, farPod)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Name, err)
	}
	defer func() { err = errors.Join(err, far.End(context.WithoutCancel(ctx))) }()
	p := placement{near: podEnd{crew: near, agent: nearPod}, direct: podEnd{crew: near, agent: directPod}, far: podEnd{crew: far, agent: farPod}}
	if err := p.setAddresses(a, b); err != nil {
		return err
	}
	var ends [3]*end
	for i, s := range []podEnd{p.near, p.direct, p.far} {
		if ends[i], err = s.startEnd(ctx); err != nil {
			return err
		}
		defer ends[i].stop()
	}
	// Calls to an end take no context: closing the end interrupts them.
	defer context.AfterFunc(ctx, func() {
		for _, e := range ends {
			_ = e.Close()
		}
	})()
	paths := map[string]*path{
		subjectDirect:  {near: ends[0], other: ends[1], podEnd: p.direct},
		subjectPeering: {near: ends[0], other: ends[2], podEnd: p.far, costs: costs},
	}
	return o.repeat(ctx, tests, paths, to)
}

// costs returns a function that reads the CPU time of the gateways of both sides.
func (o *Options) costs(ctx context.Context, a, b *operator.Side) (func(context.Context) (near, far time.Duration, err error), error) {
	ours, err1 := gatewaysOf(ctx, a, o.GatewayNamespace)
	theirs, err2 := gatewaysOf(ctx, b, o.GatewayNamespace)
	return func(ctx context.Context) (near, far time.Duration, err error) {
		near, err1 := ours.cpu(ctx)
		far, err2 := theirs.cpu(ctx)
		return near, far, errors.Join(err1, err2)
	}, errors.Join(err1, err2)
}

func (o *Options) chosen(mtu int) (some []Test) {
	for _, t := range Tests(mtu) {
		if o.Only == nil || o.Only.MatchString(t.Name) {
			some = append(some, t)
		}
	}
	return some
}

// Names returns the names of all tests for messages.
func Names(mtu int) (all string) {
	for _, t := range Tests(mtu) {
		all += " " + t.Name
	}
	return all
}

type step struct {
	test    Test
	subject string
}

func (o *Options) repeat(ctx context.Context, tests []Test, paths map[string]*path, to *result.Run) error {
	var steps []step
	for _, t := range tests {
		steps = append(steps, step{t, subjectDirect}, step{t, subjectPeering})
	}
	l := fullDurations
	if o.Quick {
		l = quickDurations
	}
	failures := make([]error, len(steps))
	begun, total := time.Now(), o.Repetitions*len(steps)
	for i := range total {
		if ctx.Err() != nil {
			return errors.Join(append(failures, errors.New("interrupted: not all repetitions were measured"))...)
		}
		repetition, at := i/len(steps), i%len(steps)
		if repetition%2 == 1 {
			at = len(steps) - 1 - at
		}
		if failures[at] != nil {
			continue
		}
		s := steps[at]
		remaining := ""
		if i > 0 {
			remaining = fmt.Sprintf(", about %v left", (time.Since(begun) * time.Duration(total-i) / time.Duration(i)).Round(time.Second))
		}
		o.Say(fmt.Sprintf("%d/%d %s, %s%s", i+1, total, s.test.Name, s.subject, remaining))
		m, err := s.test.measure(ctx, paths[s.subject], l)
		if err == nil {
			err = to.Add(result.Sample{Test: s.test.Name, Subject: s.subject, Mode: mode, Repetition: repetition + 1, Metrics: m})
		}
		if err != nil {
			failures[at] = fmt.Errorf("%s, %s: %w", s.test.Name, s.subject, err)
		}
	}
	return errors.Join(failures...)
}
