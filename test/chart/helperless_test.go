//go:build apiserver

package chart

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/pod-security-admission/api"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// withoutHelpers are the values of clusters that forbid the node helper.
var withoutHelpers = []string{"--set", "node.enabled=false,metrics.podMonitor.enabled=true"}

func TestWithoutNodeHelpersNothingOfThemIsRendered(t *testing.T) {
	t.Parallel()
	all := render(t, withoutHelpers...)
	for _, object := range append(render(t, append(onOpenShift, withoutHelpers...)...), all...) {
		name := object.GetKind() + " " + object.GetName()
		if object.GetKind() == "DaemonSet" || strings.HasPrefix(object.GetName(), "strait-node") || object.GetLabels()["app.kubernetes.io/component"] == "node" {
			t.Errorf("%s is rendered", name)
		}
		if object.GetKind() == "CustomResourceDefinition" { // their descriptions name anything
			continue
		}
		for _, part := range []string{"strait-nodes", "strait-node\n", "NET_ADMIN", "hostNetwork", "hostPort", "privileged"} {
			if strings.Contains(asYAML(t, object.Object), part) {
				t.Errorf("%s contains %q", name, part)
			}
		}
	}
	controller := pods(t, all)["strait-controller"]
	if args := controller.Spec.Containers[0].Args; !slices.Contains(args, "--without-nodes") {
		t.Errorf("the arguments of the controller are %q", args)
	}
	if args := pods(t, render(t))["strait-controller"].Spec.Containers[0].Args; slices.Contains(args, "--without-nodes") {
		t.Errorf("with node helpers, the arguments of the controller are %q", args)
	}
}

func TestWithoutNodeHelpersEveryPodAndNamespaceIsRestricted(t *testing.T) {
	t.Parallel()
	all := render(t, withoutHelpers...)
	for of, pod := range pods(t, all) {
		if reasons := forbidden(t, api.LevelRestricted, pod); len(reasons) > 0 {
			t.Errorf("%s: %q", of, reasons)
		}
	}
	for _, object := range all {
		if object.GetKind() == "Namespace" && object.GetLabels()[api.EnforceLevelLabel] != string(api.LevelRestricted) {
			t.Errorf("namespace %s has the labels %v", object.GetName(), object.GetLabels())
		}
	}
}

// Only a node helper can remove its configuration from its node, and an upgrade does not let it.
func TestNodeHelpersAreDisabledOnlyWhereNoneRuns(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	access := []string{"KUBECONFIG=" + program.Kubeconfig(t, t.TempDir(), "admin", cluster.Admin())}
	run := func(command, values string, flags ...string) (string, error) {
		return helm(t, access, append([]string{command, "strait", folder, "--namespace", release, "--set", values}, flags...)...)
	}
	notes, err := run("install", "node.enabled=false,imagePullSecrets[0].name=pull", "--create-namespace")
	must(t, err)
	cluster.AwaitCRDs(t)
	for _, part := range []string{"Node helpers are disabled:", "Copy the image pull Secrets into the namespace strait-gateways;"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the notes lack %q:\n%s", part, notes)
		}
	}
	for _, values := range []string{"node.enabled=false,controller.replicas=1", "node.enabled=true"} {
		_, err = run("upgrade", values)
		must(t, err)
	}
	if _, err := run("upgrade", "node.enabled=false"); err == nil || !strings.Contains(err.Error(), "uninstall Strait with helm uninstall") {
		t.Errorf("while node helpers run: %v", err)
	}
}
