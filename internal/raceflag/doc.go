// Package raceflag says whether the race detector is on. It makes code
// allocate that otherwise does not, so tests that count allocations skip under it.
package raceflag
