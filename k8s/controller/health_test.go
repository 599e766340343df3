package controller_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

// get returns the body of the answer to an HTTP request, or why there is none.
func get(address, path string) string {
	answer, err := http.Get("http://" + address + path)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

// A restart would not bring the API server back.
func TestAControllerWithoutItsAPIServerLivesAndIsNotReady(t *testing.T) {
	c, err := client.New(&rest.Config{Host: "https://" + ports.Address(t)})
	if err != nil {
		t.Fatal(err)
	}
	address := ports.Address(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, controller.Options{
			Client: c, Namespace: "strait-system", Identity: "me", Listen: address,
			Gateways: workload.Gateways{Namespace: "strait-gateways", ServiceAccount: "strait-gateway", Image: "registry.example/strait:v1"},
			Log:      slog.New(slog.DiscardHandler),
		})
	}()
	wait.Until(t, "the controller serves /healthz", func() bool { return get(address, "/healthz") == "ok\n" })
	if got := get(address, "/readyz"); !strings.Contains(got, "check that the API server answers") {
		t.Errorf("/readyz: %q", got)
	}
	if got := get(address, "/metrics"); !strings.Contains(got, "\nstrait_controller_leader 0\n") {
		t.Errorf("/metrics:\n%s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := get(address, "/healthz"); got == "ok\n" {
		t.Error("it serves after its end")
	}
}
