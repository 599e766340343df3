package findings

import (
	"strings"
	"testing"
)

func TestATableIsReadFromTheWorstOn(t *testing.T) {
	var b strings.Builder
	other := New("STRAIT-N003", Error, "context a, node n1", "UDP port 6091 is in use")
	other.Remedy = "Do this instead."
	err := Table(&b, []Finding{
		New("STRAIT-N001", OK, "context a, node n1", "geneve"),
		New("STRAIT-N001", OK, "context a, node n2", "vxlan"),
		New("STRAIT-C002", OK, "context a", "v1.36.3"),
		New("STRAIT-C011", Info, "context a", "none"),
		New("STRAIT-N005", Warning, "context a, node n1", "212992 bytes"),
		New("STRAIT-N005", Warning, "context a, node n2", "212992 bytes"),
		New("STRAIT-N010", Skipped, "context a", "one node"),
		other,
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `ERROR
  STRAIT-N003  context a, node n1
      UDP port 6091 is in use
      → Do this instead.
      https://strait.dev/docs/troubleshooting/STRAIT-N003.md

WARNING
  STRAIT-N005  context a, node n1; context a, node n2
      212992 bytes
      → Set net.core.rmem_max=4194304 and net.core.wmem_max=4194304 on nodes that gateways run on.
      https://strait.dev/docs/troubleshooting/STRAIT-N005.md

INFO
  STRAIT-C011  context a
      none

SKIPPED
  STRAIT-N010  context a
      one node

OK
  STRAIT-C002  context a: v1.36.3
  STRAIT-N001  tunnel devices of the node's kernel: 2

1 error, 2 warnings; 1 info, 3 ok, 1 skipped
`
	if b.String() != want {
		t.Errorf("%s\nwant:\n%s", b.String(), want)
	}
}
