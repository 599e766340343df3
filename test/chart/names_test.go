//go:build apiserver

package chart

import (
	"testing"

	"strait.dev/strait/k8s/install"
)

// Commands find the parts of an installation by name.
func TestChartUsesTheNamesOfCommands(t *testing.T) {
	t.Parallel()
	all := render(t)
	for _, namespace := range []string{install.GatewayNamespace, install.NodeNamespace} {
		find(t, all, "Namespace", namespace)
	}
	for _, part := range []struct {
		kind, name, namespace, component string
		port                             int64
	}{
		{"Deployment", install.ControllerName, install.Namespace, install.Controller, install.HTTPPort},
		{"DaemonSet", "strait-node", install.NodeNamespace, install.Node, install.NodeHTTPPort},
	} {
		object := find(t, all, part.kind, part.name)
		if object.GetNamespace() != part.namespace {
			t.Errorf("%s is in %s, want %s", part.name, object.GetNamespace(), part.namespace)
		}
		pod := pods(t, all)[part.name]
		if pod == nil {
			t.Fatalf("%s has no pod", part.name)
		}
		if pod.Labels[install.NameLabel] != install.Name || pod.Labels[install.ComponentLabel] != part.component {
			t.Errorf("the pod of %s has the labels %v", part.name, pod.Labels)
		}
		if got := pod.Spec.Containers[0].Image; got != install.Image {
			t.Errorf("the image of %s is %s, want %s", part.name, got, install.Image)
		}
		if c := pod.Spec.Containers[0]; c.Name != part.component || int64(c.Ports[0].ContainerPort) != part.port {
			t.Errorf("the container of %s is %s with port %d, want %s with %d", part.name, c.Name, c.Ports[0].ContainerPort, part.component, part.port)
		}
	}
}
