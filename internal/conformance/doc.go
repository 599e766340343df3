// Package conformance holds the test that each protocol rule, threat and fault has a test: each row
// of docs/evidence/conformance.md.
package conformance
