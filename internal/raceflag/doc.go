// Package raceflag reports whether the race detector is on. It causes additional allocations, so
// tests that count allocations skip under it, and takes ten times as long, so tests that repeat
// the same at many times repeat it less often.
package raceflag
