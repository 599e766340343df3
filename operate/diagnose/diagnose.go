package diagnose

import (
	"context"
	"errors"
	"slices"
	"time"

	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/preflight"
	"strait.dev/strait/operate/verify"
)

// Schema is the version of the JSON form of a Report. Fields may be added; changes and
// removals get a new number.
const Schema = "strait.dev/diagnose/1"

// Report is what is wrong with one cluster or two.
type Report struct {
	Schema string  `json:"schema"`
	Well   bool    `json:"well"`   // no cause was found
	Causes []Cause `json:"causes"` // the most likely first
	Checks Checks  `json:"checks"`
}

// Checks says what the report rests on.
type Checks struct {
	Findings int  `json:"findings"` // checks of strait preflight that ran
	Warnings int  `json:"warnings"` // of them
	Peerings int  `json:"peerings"`
	Packets  int  `json:"packets"` // checks of strait verify that sent packets between the clusters
	NoPods   bool `json:"noPods"`  // neither nodes nor packets were looked at
}

// Options configure a run.
type Options struct {
	Local    operator.Cluster
	Remote   *operator.Cluster // nil: access to one cluster only
	NoPods   bool              // only read from the API servers
	Image    string            // of the pods; empty: that of the installed Strait
	Progress *operator.Progress
}

// Run looks at one cluster or two: at the status of the peerings, at what strait preflight checks, and, if all peerings are
// ready, at packets between pods of both clusters. The error lists what was not removed.
func Run(ctx context.Context, o Options) (*Report, error) {
	defer o.Progress.Done()
	var seen Seen
	o.Progress.Say("reading the status of " + o.Local.Name)
	began, missing := time.Now(), seen.look(ctx, o)
	var err error
	seen.Findings, err = preflight.Run(ctx, preflight.Options{Local: o.Local, Remote: o.Remote, NoPods: o.NoPods, Image: o.Image, Progress: o.Progress})
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	if missing != "" {
		// What has just changed is not ready for a moment. A timeout is no error: it is what is wrong.
		_ = operator.Waiting{For: settleTime - time.Since(began), Progress: o.Progress}.Until(ctx, func(ctx context.Context) (string, error) { return seen.look(ctx, o), nil })
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
	if seen.ready() && o.Remote != nil && !o.NoPods {
		o.Progress.Say("sending packets between the clusters")
		report, failed := verify.Run(ctx, o.Local, *o.Remote, "", verify.Options{Image: o.Image, Say: o.Progress.Say})
		if report != nil {
			seen.Checks = report.Checks
		}
		err = errors.Join(err, failed)
	}
	return report(seen, o.NoPods), err
}

// settleTime is the time that peerings have to become ready again.
const settleTime = 15 * time.Second

// look looks at the objects of all clusters, and returns what is missing that may come by itself.
func (s *Seen) look(ctx context.Context, o Options) (missing string) {
	s.Clusters = nil
	for _, c := range operator.Clusters(o.Local, o.Remote) {
		s.Clusters = append(s.Clusters, lookAt(ctx, c))
	}
	causes := Causes(Seen{Clusters: s.Clusters})
	if len(causes) == 0 || causes[0].Code == access || causes[0].Code == notJoined {
		return ""
	}
	return "waiting, because of " + causes[0].Evidence[0]
}

// ready reports whether all peerings are.
func (s *Seen) ready() bool {
	return !slices.ContainsFunc(s.Clusters, func(c ClusterSeen) bool { return c.Err != nil || !c.Status.Ready })
}

func lookAt(ctx context.Context, c operator.Cluster) ClusterSeen {
	is := ClusterSeen{Name: c.Name}
	if is.Status, is.Err = operator.ReadReport(ctx, c, nil); is.Err != nil {
		return is
	}
	is.Nodes, is.Err = verify.Nodes(ctx, c, is.Status)
	return is
}

func report(seen Seen, noPods bool) *Report {
	r := &Report{Schema: Schema, Causes: Causes(seen), Checks: Checks{NoPods: noPods}}
	if r.Causes == nil {
		r.Causes = []Cause{}
	}
	r.Well = len(r.Causes) == 0
	for _, c := range seen.Clusters {
		if c.Status != nil {
			r.Checks.Peerings += len(c.Status.Peerings)
		}
	}
	for _, f := range seen.Findings {
		if f.Severity != findings.Skipped {
			r.Checks.Findings++
		}
		if f.Severity == findings.Warning {
			r.Checks.Warnings++
		}
	}
	for _, c := range seen.Checks {
		if c.Outcome != verify.Skipped {
			r.Checks.Packets++
		}
	}
	return r
}
