package ipam

import (
	"cmp"
	"slices"
)

// Claim is a grant in the store that all writers share.
type Claim struct {
	Name string // unique in the store; ClaimName(Prefix), but nothing depends on it
	Grant
	Bound bool // the grant may be used; false in a new claim
}

// Verdict is what any writer may do with a claim.
type Verdict uint8

// The verdicts of Decide.
const (
	Keep Verdict = iota // bound and without a conflict to resolve: nothing to do
	Bind                // may be bound
	Wait                // conflicts with a claim that will be dropped, or malformed: must not be bound
	Drop                // lost the conflict: delete it
)

func (v Verdict) String() string {
	return [...]string{"keep", "bind", "wait", "drop"}[v]
}

// Decide returns the verdict on each claim of a list, in the order of the list. Writers may race for prefixes that
// overlap without being equal, which unique names cannot prevent. So a claim is created unbound, must not be used before
// it is bound, and is bound or dropped depending on the contents of the store only.
//
// The rules for writers:
//
//   - claims must be the complete answer to one list request, of any age: the contents of the store at one moment. The
//     cache of an informer may mix two moments.
//   - Bind and Drop apply only to the version that was listed (in Kubernetes with resourceVersion, and for Drop also the
//     UID); if the store refuses, list again. Any writer may apply them, in any order, or not at all.
//   - A claim never changes, except for Bound.
//   - A grant is used only while its claim exists and is bound, even after the store was restored from a backup; its
//     owner stops using it before it deletes the claim.
//
// Two claims are in conflict if their prefixes overlap or if they have the same purpose: the same owner and wanted prefix
// (and family). A claim gets Bind only if no claim of the list is in conflict with it.
//
// So no two conflicting claims are ever bound at once. Suppose C and D are. C was bound because of a list at moment c,
// which contained C and not D; D because of a list at moment d, which contained D and not C; let c be no later than d. C
// existed at c and exists now, and a deleted claim never comes back as the same, so C existed at d as well and was in
// that list: a contradiction. This needs no clock, no order of creation, no leader and no fresh read. A writer that
// crashes leaves claims on which every other writer reaches the same verdict.
//
// Of conflicting claims the bound one stays, and among unbound ones the first by name; a claim that overlaps none that
// stays, stays too. It gets Wait until the others are gone. Bound conflicting claims can only come from outside, such as
// from an edited backup; the second by name is then dropped.
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

// precedence orders claims: of two in conflict the later one loses.
func precedence(a, b Claim) int {
	switch {
	case a.Bound && !b.Bound:
		return -1
	case b.Bound && !a.Bound:
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// register finds conflicts with the claims added to it.
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
