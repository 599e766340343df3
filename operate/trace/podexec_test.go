package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
)

func TestAGatewayIsAskedOverTheSocketInItsPod(t *testing.T) {
	var asked client.ExecOptions
	p := &Pods{GatewayNamespace: "strait-gateways", Exec: func(_ context.Context, o client.ExecOptions) error {
		asked = o
		_, err := fmt.Fprint(o.Stdout, `{"cluster":"a","verdict":"tunnel"}`)
		return err
	}}
	a, err := p.Gateway(t.Context(), "b-0", localsocket.TraceQuestion{Probe: probe("10.0.1.5", "10.71.2.9")})
	if err != nil || a.Cluster != "a" || a.Verdict != localsocket.TraceToTunnel {
		t.Errorf("%+v, %v", a, err)
	}
	if asked.Namespace != "strait-gateways" || asked.Pod != "b-0" || asked.Container != "gateway" || asked.Stdin != nil ||
		!slices.Equal(asked.Command[:4], []string{"/strait", "trace", "--socket", "/var/cache/strait/strait.sock"}) {
		t.Errorf("%+v", asked)
	}
}

func TestWhoCannotBeAskedIsNamedWithTheRemedy(t *testing.T) {
	for want, answer := range map[string]operator.Exec{
		"pod strait-gateways/b-0: strait trace: no gateway listens on it": func(_ context.Context, o client.ExecOptions) error {
			fmt.Fprintln(o.Stderr, "no gateway listens on it")
			return &client.ExitError{Code: 1}
		},
		"use a context with permission to create pods/exec": func(context.Context, client.ExecOptions) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/exec"}, "b-0", errors.New("no"))
		},
		"check that it runs: kubectl get pods -n strait-gateways": func(context.Context, client.ExecOptions) error { return errors.New("connection refused") },
		"use a strait of the version of that pod": func(_ context.Context, o client.ExecOptions) error {
			_, err := fmt.Fprint(o.Stdout, "strait: unknown command")
			return err
		},
	} {
		p := &Pods{GatewayNamespace: "strait-gateways", Exec: answer}
		if _, err := p.Gateway(t.Context(), "b-0", localsocket.TraceQuestion{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
