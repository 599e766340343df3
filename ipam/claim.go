package ipam

import (
	"cmp"
	"slices"
)

// Claim is a grant as it stands in the store that all writers share.
type Claim struct {
	Name string // unique in the store; ClaimName(Prefix), but nothing depends on it
	Grant
	Bound bool // the grant may be used; false in a claim that has just been created
}

// Verdict says what any writer may do with a claim.
type Verdict uint8

// The verdicts of Decide.
const (
	Keep Verdict = iota // bound, and in nobody's way: nothing to do
	Bind                // may be bound
	Wait                // is in conflict with a claim that gives way, or malformed: not to be bound
	Drop                // gives way: delete it
)

func (v Verdict) String() string {
	return [...]string{"keep", "bind", "wait", "drop"}[v]
}

// Decide gives the verdict on each claim of a list, in the order of the list.
// Writers may race for blocks that overlap and are not equal, which no name can
// prevent: so a claim is created unbound, must not be used before it is bound,
// and is bound or dropped by what the store holds, not by who is asked.
//
// The rules for writers:
//
//   - claims must be the whole answer to one list request, however old: what the
//     store held at one moment. The cache of an informer may mix two moments.
//   - Bind and Drop are carried out only on the very version that was listed (in
//     Kubernetes with resourceVersion, and for Drop the UID too); if the store
//     refuses, list again. Any writer may do so, in any order, or leave it.
//   - What a claim says never changes, but for Bound.
//   - A grant is used only while its claim is there and bound, also after the
//     store was restored from a backup; its owner stops before it deletes the claim.
//
// Two claims are in conflict if their prefixes overlap or if they are for the same
// purpose: the same owner and wanted prefix (and family). A claim gets Bind only
// if no claim of the list is in conflict with it.
//
// So no two claims in conflict are ever bound at once. Suppose C and D are. C was
// bound because of a list of moment c, with C in it and D not; D because of one
// of moment d, with D in it and C not; let c be no later than d. C was there at c
// and is there now, and a claim that is deleted never comes back as the same, so
// C was there at d as well: in the list that it was not in. It takes no clock, no
// order of creation, no leader and no fresh read; and whoever crashes leaves
// behind claims, about which every other writer has the same verdict.
//
// Of claims in conflict the bound one stays, and among unbound ones the first by
// name: whoever does not overlap one that stays, stays. It gets Wait until the
// others are gone. Bound claims in conflict can come only from elsewhere, as from
// an edited backup; the second by name is then dropped.
func Decide(claims []Claim) []Verdict {
	verdicts := make([]Verdict, len(claims))
	order := make([]int, len(claims))
	for i := range claims {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return precedence(claims[i], claims[j]) })
	staying, leaving := newRegister(), newRegister()
	for _, i := range order {
		c := claims[i]
		switch {
		case c.check() != nil:
			verdicts[i] = Wait
		case staying.conflicts(c.Grant):
			verdicts[i] = Drop
			leaving.add(c.Grant)
		default:
			if !c.Bound {
				verdicts[i] = Bind
			}
			staying.add(c.Grant)
		}
	}
	for i, c := range claims {
		if verdicts[i] == Bind && leaving.conflicts(c.Grant) {
			verdicts[i] = Wait
		}
	}
	return verdicts
}

// precedence orders claims: of two in conflict the later one gives way.
func precedence(a, b Claim) int {
	switch {
	case a.Bound && !b.Bound:
		return -1
	case b.Bound && !a.Bound:
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// register finds conflicts with what was added to it.
type register struct {
	blocks   set
	purposes map[purpose]bool
}

func newRegister() *register { return &register{purposes: make(map[purpose]bool)} }

func (r *register) add(g Grant) {
	r.blocks.add(g.Prefix)
	r.purposes[g.purpose()] = true
}

func (r *register) conflicts(g Grant) bool {
	_, overlap := r.blocks.overlapping(g.Prefix)
	return overlap || r.purposes[g.purpose()]
}
