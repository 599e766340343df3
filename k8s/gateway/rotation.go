package gateway

import (
	"slices"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/tun"
)

// handover is the time for which links with a new key have to be up before the old key is
// removed. Both sides move their traffic to a new link within 2 s.
const handover = 10 * time.Second

// rotation decides which of its keys the gateway publishes as the one to use. A newer key
// is announced in addition, and replaces it when all remote gateways with a link that is up
// use it. The result depends only on the calls and their times.
type rotation struct {
	generation int32     // of the key in use; 0: not known yet
	since      time.Time // since when every remote gateway uses the newest key; zero: not yet
}

// step returns the key to use, and the key that is to replace it, each nil if there is
// none. keys are sorted newest first. A key that is older than the one in use is not used again.
func (r *rotation) step(keys []translate.OwnKey, links []tun.LinkStatus, now time.Time) (use, next *translate.OwnKey) {
	real := slices.DeleteFunc(slices.Clone(keys), func(k translate.OwnKey) bool { return k.Generation == 0 || k.Generation < r.generation })
	if len(real) == 0 {
		return nil, nil
	}
	at := slices.IndexFunc(real, func(k translate.OwnKey) bool { return k.Generation == r.generation })
	if at < 0 { // unknown or removed: remote gateways know the oldest
		at = len(real) - 1
		r.generation, r.since = real[at].Generation, time.Time{}
	}
	newest := &real[0]
	switch {
	case at == 0:
		return newest, nil
	case !usedByAllRemotes(newest.Public, links):
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	case now.Sub(r.since) >= handover:
		r.generation = newest.Generation
		return newest, nil
	}
	return &real[at], newest
}

// usedByAllRemotes reports whether there is a remote gateway with a link that is up, and
// each uses this key.
func usedByAllRemotes(key config.Key, links []tun.LinkStatus) bool {
	using := map[string]bool{}
	for _, l := range links {
		if l.Up {
			using[l.Gateway] = using[l.Gateway] || l.OwnKey == key
		}
	}
	for _, uses := range using {
		if !uses {
			return false
		}
	}
	return len(using) > 0
}
