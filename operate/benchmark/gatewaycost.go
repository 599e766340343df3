package benchmark

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/operate/operator"
)

type gateways struct {
	client    *client.Client
	namespace string
	pods      []string
}

func gatewaysOf(ctx context.Context, s *operator.Side, namespace string) (*gateways, error) {
	list, err := operator.List(ctx, s.Cluster, "the pods of gateways", s.Client.Pods(namespace), metav1.ListOptions{LabelSelector: peering.Label + "=" + s.Peering.Name})
	if err != nil {
		return nil, err
	}
	g := &gateways{client: s.Client, namespace: namespace}
	for i := range list.Items {
		g.pods = append(g.pods, list.Items[i].Name)
	}
	if len(g.pods) == 0 {
		return nil, fmt.Errorf("%s: no gateway of Peering %s runs in namespace %s; run strait status, and check --gateway-namespace", s.Name, s.Peering.Name, namespace)
	}
	return g, nil
}

// cpu returns the total CPU time of the gateways' processes since their start.
func (g *gateways) cpu(ctx context.Context) (all time.Duration, err error) {
	for _, pod := range g.pods {
		page, err := operator.Exec(g.client.Exec).Metrics(ctx, g.namespace, pod)
		if err != nil {
			return 0, fmt.Errorf("metrics of gateway %s: %w", pod, err)
		}
		one, err := processCPU(bytes.NewReader(page))
		if err != nil {
			return 0, fmt.Errorf("metrics of gateway %s: %w", pod, err)
		}
		all += one
	}
	return all, nil
}

// processCPU parses the CPU time of a process from its metrics, in the text format of
// Prometheus.
func processCPU(page io.Reader) (time.Duration, error) {
	const name = "process_cpu_seconds_total "
	for lines := bufio.NewScanner(page); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name); ok {
			seconds, err := strconv.ParseFloat(text, 64)
			return time.Duration(seconds * float64(time.Second)), err
		}
	}
	return 0, fmt.Errorf("the metric %s is missing", strings.TrimSpace(name))
}
