package main

import "strings"

// labs are the folders of tests that need root, other kernels or API servers, and
// the make targets that run them.
var labs = []struct{ folder, target string }{
	{"test/lab", "lab"},
	{"test/hostile", "hostile"},
	{"test/nodes", "e2e"},
	{"test/e2e", "e2e"},
	{"test/scale", "scale"},
	{"test", serversTarget},
}

// serversPackage starts API servers, so packages whose tests import it are run by
// serversTarget, as test/kube/tier says too.
const (
	serversPackage = module + "/test/kube"
	serversTarget  = "test-k8s"
)

// labOf is the make target for the tests of a folder; empty = they need nothing.

func labOf(folder string) string {
	for _, l := range labs {
		if folder == l.folder || strings.HasPrefix(folder, l.folder+"/") {
			return l.target
		}
	}
	return ""
}
