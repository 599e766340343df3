package ipam_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/ipam"
)

// A model of writers that share a store, as Decide's rules have it. A move is one
// request of one writer, or its crash.

// stored is a claim in the store. Every change gives it another version.
type stored struct {
	ipam.Claim
	version int
}

// store refuses to create what has a name already, and to change what has been changed.
type store struct {
	claims   map[string]stored
	versions int
	history  [][]stored // what a list answered after each change, the latest last
}

func (s *store) apply(r request) bool {
	now, exists := s.claims[r.claim.Name]
	if r.operation == "create" && exists || r.operation != "create" && now.version != r.claim.version {
		return false
	}
	s.versions++
	delete(s.claims, r.claim.Name)
	if r.operation != "delete" {
		c := r.claim
		c.Bound = r.operation == "bind"
		c.version = s.versions
		s.claims[c.Name] = c
	}
	list := slices.SortedFunc(maps.Values(s.claims), func(a, b stored) int { return strings.Compare(a.Name, b.Name) })
	s.history = append(s.history, list)
	return true
}

// list is what the store held so many changes ago.
func (s *store) list(age int) []stored {
	if age >= len(s.history) {
		return nil
	}
	return s.history[len(s.history)-1-age]
}

type request struct {
	operation string // create, bind, delete
	claim     stored
}

// want is what a writer has to see granted: a prefix, or an address of a pool.
type want struct {
	owner           string
	wanted, addrsOf netip.Prefix
}

// writer takes care of some wants. All that it remembers is what it is about to do.
type writer struct {
	wants []want
	todo  []request
}

// world is the store and its writers, which take a claim that no writer wants for garbage.
type world struct {
	store   store
	writers []writer
	pool    netip.Prefix
}

// step is one request of a writer: a list of some age when it has nothing to do.
func (w *world) step(t *testing.T, who, age int) {
	a := &w.writers[who]
	if len(a.todo) == 0 {
		a.todo = w.plan(t, a.wants, w.store.list(age))
		return
	}
	next := a.todo[0]
	a.todo = a.todo[1:]
	if !w.store.apply(next) {
		a.todo = nil // list again
	}
}

func (w *world) plan(t *testing.T, wants []want, list []stored) []request {
	var todo []request
	var listed []ipam.Claim
	var granted []ipam.Grant
	for _, c := range list {
		listed = append(listed, c.Claim)
		granted = append(granted, c.Grant)
	}
	for i, v := range ipam.Decide(listed) {
		switch {
		case v == ipam.Drop || !w.wanted(list[i].Grant):
			todo = append(todo, request{"delete", list[i]})
		case v == ipam.Bind:
			todo = append(todo, request{"bind", list[i]})
		}
	}
	s := newSpace(t, w.pool.String(), nil, granted...)
	for _, n := range wants {
		g := n.grant(t, s)
		if !slices.Contains(granted, g) {
			todo = append(todo, request{"create", stored{Claim: ipam.Claim{Name: ipam.ClaimName(g.Prefix), Grant: g}}})
			take(t, s, g)
		}
	}
	return todo
}

func (n want) grant(t *testing.T, s *ipam.Space) ipam.Grant {
	if n.addrsOf.IsValid() {
		return ipam.Grant{Owner: n.owner, Prefix: pfx(addressOf(t, s, n.owner, n.addrsOf.String()) + "/32")}
	}
	return ipam.Grant{Owner: n.owner, Wanted: n.wanted, Prefix: pfx(prefixOf(t, s, n.owner, n.wanted.String()))}
}

func (w *world) wanted(g ipam.Grant) bool {
	return slices.ContainsFunc(w.writers, func(a writer) bool {
		return slices.ContainsFunc(a.wants, func(n want) bool { return n.owner == g.Owner && n.wanted == g.Wanted })
	})
}

// conflictInUse is two claims in conflict that are both bound.
func (w *world) conflictInUse() string {
	now := w.store.list(0)
	for i, a := range now {
		for _, b := range now[:i] {
			if a.Bound && b.Bound && conflict(a.Claim, b.Claim) {
				return fmt.Sprintf("%+v\n%+v", a.Claim, b.Claim)
			}
		}
	}
	return ""
}

// settled reports whether every want has its one bound claim, and nothing else is there.
func (w *world) settled() bool {
	missing := map[want]bool{}
	for _, a := range w.writers {
		for _, n := range a.wants {
			missing[n] = true
		}
	}
	wants := len(missing)
	for _, c := range w.store.list(0) {
		maps.DeleteFunc(missing, func(n want, _ bool) bool {
			return c.Bound && n.owner == c.Owner && n.wanted == c.Wanted
		})
	}
	return len(missing) == 0 && len(w.store.claims) == wants
}

func (w *world) clone() *world {
	c := *w
	c.writers = slices.Clone(w.writers)
	c.store.claims = maps.Clone(w.store.claims)
	c.store.history = slices.Clip(w.store.history)
	return &c
}
