//go:build apiserver

package nodehelper

import (
	"os"
	"testing"

	"strait.dev/strait/test/kube"
)

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }
