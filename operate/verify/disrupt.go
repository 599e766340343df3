package verify

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/operate/operator"
)

const (
	flowsOfEach    = 4                // of TCP and of UDP, for each pair of pods
	disruptTime    = 30 * time.Minute // limit of a run
	startTime      = 30 * time.Second // within which all flows run
	quietTime      = 10 * time.Second // for which nothing is disrupted
	afterwardsTime = 2 * time.Second  // for which flows are watched after a disruption
)

// Disrupt disrupts the gateways of two joined clusters in several ways, one after the other,
// while flows run between them in both directions, and measures what these lose. Otherwise
// it is like Run.
func Disrupt(ctx context.Context, local, remote operator.Cluster, peering string, o Options) (r *DisruptReport, err error) {
	began := time.Now()
	a, b, err := operator.Pair(ctx, local, remote, peering)
	if err != nil {
		return nil, err
	}
	for _, s := range []*operator.Side{a, b} {
		if s.Network.Status.WithoutNodes {
			return nil, fmt.Errorf("%s: the cluster has no node helpers, so its pods do not reach those of other clusters; --disrupt is for clusters that have them", s.Name)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, disruptTime, fmt.Errorf("not within %v", disruptTime))
	defer cancel()
	r = &DisruptReport{}
	defer func() { r.finish(began) }()
	states, shapes, err := readClusters(ctx, a, b)
	if err != nil {
		return nil, err
	}
	r.Clusters = shapes
	sites, err := openBoth(ctx, states, &o)
	if err != nil {
		return nil, err
	}
	defer func() {
		o.say("removing the agents")
		err = errors.Join(err, closeBoth(context.WithoutCancel(ctx), sites))
	}()
	all, err := startStreams(ctx, sites)
	if err != nil {
		return nil, err
	}
	defer all.stop()
	for _, d := range disruptionsOf(a, b) {
		o.say(d.String())
		if err := d.run(ctx, [2]*operator.Side{a, b}); err != nil {
			return r, fmt.Errorf("%v: %w", d, err)
		}
		lost, err := all.ask()
		if err != nil {
			return r, fmt.Errorf("%v: %w", d, err)
		}
		for i, s := range sites {
			r.Rows = append(r.Rows, d.judge(s.id, sites[1-i].id, lost[i]))
		}
	}
	return r, nil
}

// streams are the flows of a run, by agent.
type streams struct {
	sessions []*session
	sites    []int // where each begins
}

// startStreams starts flows between all pods of the agents, in both directions, and returns
// once they have run.
func startStreams(ctx context.Context, sites [2]*site) (*streams, error) {
	var marker endpoint.Marker
	_, _ = cryptorand.Read(marker[:]) // never fails
	all := &streams{}
	for i, s := range sites {
		var to []netip.AddrPort
		for _, p := range sites[1-i].locations {
			if p.host || p.agent == "" {
				continue
			}
			for _, f := range families {
				if at := p.seen[f]; at.IsValid() && hasFamily(s, f) {
					to = append(to, netip.AddrPortFrom(at, endpoint.Port))
				}
			}
		}
		for _, p := range s.locations {
			if !p.host && p.agent != "" {
				all.sessions = append(all.sessions, s.begin(ctx, p.agent, "streams", endpoint.StreamsOrder{Marker: marker, To: to, TCP: flowsOfEach, UDP: flowsOfEach, Longest: disruptTime}, disruptTime))
				all.sites = append(all.sites, i)
			}
		}
	}
	if err := all.awaitAnswers(); err != nil {
		all.stop()
		return nil, err
	}
	return all, nil
}

// awaitAnswers returns once all flows are answered: the time until then does not count.
func (all *streams) awaitAnswers() error {
	for began := time.Now(); ; {
		lost, err := all.ask()
		switch {
		case err != nil:
			return err
		case answered(lost[0]) && answered(lost[1]):
			return nil
		case time.Since(began) > startTime:
			return errors.New("not all flows between the clusters are answered; run strait verify without --disrupt first")
		}
	}
}

func answered(r endpoint.StreamsResult) bool {
	return r.Sent > 0 && r.Lost == 0 && r.Broken == 0 && r.Gap < time.Second
}

func hasFamily(s *site, f family) bool {
	for _, p := range s.locations {
		if !p.host && p.agent != "" && p.seen[f].IsValid() {
			return true
		}
	}
	return false
}

// ask returns what the flows that begin in each cluster have lost since the last question.
func (all *streams) ask() (lost [2]endpoint.StreamsResult, err error) {
	for _, s := range all.sessions {
		s.send("now")
	}
	for i, s := range all.sessions {
		var is endpoint.StreamsResult
		if err := s.next(&is); err != nil {
			return lost, fmt.Errorf("an agent exited, or the API server closed the connection to it: %w", err)
		}
		lost[all.sites[i]].Add(is)
	}
	return lost, nil
}

func (all *streams) stop() {
	for _, s := range all.sessions {
		s.cancel()
	}
}
