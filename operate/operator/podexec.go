package operator

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// Limits of the output of a command in a pod, in bytes.
const (
	outputAtMost = 16 << 20
	errorAtMost  = 4 << 10
)

// Exec runs a command in a container: client.Client.Exec, or a substitute where there are no
// kubelets.
type Exec func(context.Context, client.ExecOptions) error

// Strait runs strait in a container and returns the beginning of its output, also with an error.
func (run Exec) Strait(ctx context.Context, namespace, pod, container string, args ...string) ([]byte, error) {
	out, errs := &bounded{most: outputAtMost}, &bounded{most: errorAtMost}
	err := run(ctx, client.ExecOptions{
		Namespace: namespace, Pod: pod, Container: container, Stdout: out, Stderr: errs, Command: append([]string{install.Binary}, args...),
	})
	switch {
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("pod %s/%s: exec is not permitted: %w; use a context with permission to create pods/exec", namespace, pod, err)
	case err != nil && errs.Len() > 0:
		err = fmt.Errorf("pod %s/%s: strait %s: %s (%w)", namespace, pod, args[0], strings.TrimSpace(errs.String()), err)
	case err != nil:
		err = fmt.Errorf("pod %s/%s: %w; check that it runs: kubectl get pods -n %[1]s", namespace, pod, err)
	}
	return out.Bytes(), err
}

// Metrics returns the metrics of a gateway.
func (run Exec) Metrics(ctx context.Context, namespace, pod string) ([]byte, error) {
	return run.Strait(ctx, namespace, pod, install.Gateway, "agent", "fetch", fmt.Sprintf("http://127.0.0.1:%d/metrics", install.HTTPPort))
}

// bounded stores the beginning of what is written, and discards the rest.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}
