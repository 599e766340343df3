package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"strait.dev/strait/k8s/client"
)

const metricsPage = `# TYPE strait_link_bytes_total counter
strait_link_bytes_total{direction="egress",peer="a-0"} 1.5728645e+06
strait_link_bytes_total{direction="ingress",peer="a-0"} 1023
strait_link_bytes_total{direction="ingress",peer="a-1"} many
strait_link_packets_total{direction="ingress",peer="a-1"} 7
`

func twoLinks() *Report {
	return &Report{Peerings: []PeeringReport{{Links: []Link{{Local: "b-0", Remote: "a-0"}, {Local: "b-0", Remote: "a-1"}, {Local: "b-1", Remote: "a-0"}}}}}
}

func TestTrafficIsReadOnceInEachGateway(t *testing.T) {
	t.Parallel()
	r, asked := twoLinks(), make(chan string, 9)
	must(t, r.readTraffic(t.Context(), Cluster{Name: "context a"}, func(_ context.Context, o client.ExecOptions) error {
		asked <- fmt.Sprint(o.Namespace, "/", o.Pod, "/", o.Container, " ", strings.Join(o.Command, " "))
		_, err := io.WriteString(o.Stdout, metricsPage)
		return err
	}))
	if got := <-asked; len(asked) != 1 || !strings.HasPrefix(got, "strait-gateways/b-") || !strings.HasSuffix(got, "/gateway /strait agent fetch http://127.0.0.1:8080/metrics") {
		t.Errorf("asked %s, and %d more", got, len(asked))
	}
	if got := r.Peerings[0].Links[0].Traffic; got == nil || *got != (Traffic{Received: 1023, Sent: 1572864}) {
		t.Errorf("a-0 has %+v", got)
	}
	var table strings.Builder
	must(t, Table(&table, r, noon, true))
	for _, want := range []string{"  LINK        UP  RTT  HANDSHAKE  PATH-MTU  RECEIVED  SENT     ENDPOINT\n",
		"  b-0 to a-0  no  -    never      -         1023 B    1.5 MiB  -\n",
		"  b-0 to a-1  no  -    never      -         -         -        -\n"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no line %q in\n%s", want, table.String())
		}
	}
}

func TestAGatewayWhoseTrafficIsNotReadIsNamed(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "b-0", errors.New("no"))
	for name, c := range map[string]struct {
		err  error
		says string
		want string
	}{
		"forbidden":   {forbidden, "", "pod strait-gateways/b-1: exec is not permitted: "},
		"away":        {errors.New("no route"), "", "pod strait-gateways/b-1: no route; check that it runs: kubectl get pods -n strait-gateways"},
		"no answer":   {errors.New("exit 1"), "strait: connection refused\n", "pod strait-gateways/b-1: strait agent: strait: connection refused (exit 1)"},
		"not at once": {context.DeadlineExceeded, "", "context deadline exceeded"},
	} {
		r := twoLinks()
		err := r.readTraffic(t.Context(), Cluster{Name: "context a"}, func(_ context.Context, o client.ExecOptions) error {
			if o.Pod == "b-0" {
				_, _ = io.WriteString(o.Stdout, metricsPage)
				return nil
			}
			_, _ = io.WriteString(o.Stderr, c.says)
			return c.err
		})
		says(t, err, "context a: ", c.want)
		if r.Peerings[0].Links[0].Traffic == nil || r.Peerings[0].Links[2].Traffic != nil {
			t.Errorf("%s: the links are %+v", name, r.Peerings[0].Links)
		}
	}
}

func TestALongOutputIsCut(t *testing.T) {
	t.Parallel()
	l := bounded{most: 4 << 20}
	for range 5 {
		if n, err := l.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
			t.Fatal(n, err)
		}
	}
	if l.Len() != l.most {
		t.Errorf("%d bytes are stored", l.Len())
	}
}

func TestBytesHaveABinaryPrefix(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 19: "1.5 MiB", 1 << 40: "1.0 TiB", 1 << 63: "8192.0 PiB"} {
		if got := inBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
