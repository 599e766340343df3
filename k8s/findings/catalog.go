package findings

// Check is what a code stands for.
type Check struct {
	Title  string // what is looked at, a noun phrase
	Remedy string // what to do where it fails, an imperative
}

// Catalog are all checks. Codes are never used again for something else: STRAIT-C of the
// cluster, -N of nodes, -U of the way between clusters, -L of what was left behind.
var Catalog = map[string]Check{
	"STRAIT-C001": {"access to the API server", "Choose a context with --context, and see whether kubectl reaches the cluster with it."},
}
