//go:build apiserver && !nightly

package claims_test

// rounds is how often two writers race.
const rounds = 100
