package nodehelper

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"strait.dev/strait/test/kube"
)

func TestMain(m *testing.M) {
	code := kube.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
