// Package raceflag reports whether the race detector is on. The race detector causes
// additional allocations, so tests that count allocations skip under it.
package raceflag
