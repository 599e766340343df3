//go:build apiserver

package chart

import (
	"strings"
	"testing"

	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/test/kube"
)

// onOpenShift are the arguments of helm template for a cluster that has OpenShift's SCCs.
var onOpenShift = []string{"--api-versions", "security.openshift.io/v1"}

// An API server with policies that refuse what OpenShift's SCCs refuse admits all pods of the
// chart as it renders there, the gateways, and the pods of commands, without any value.
func TestSecurityContextConstraintsAdmitAllPods(t *testing.T) {
	t.Parallel()
	on := admissionOf(t, "openshift")
	all := render(t, onOpenShift...)
	apply(t, on.cluster, all)
	here := pods(t, all)

	elsewhere := pods(t, render(t))
	for _, of := range []string{"strait-controller", "strait-uninstall", "strait-verify"} {
		on.refuses("runAsUser is outside of the range", func() error { return on.create(release, elsewhere[of]) })
	}
	withTun := render(t, append(onOpenShift, "--set", "node.tun=true")...)
	tun := func() error { return on.create("strait-nodes", pods(t, withTun)["strait-node"]) }
	on.refuses("the SCC does not allow a type of volumes", tun)
	more := here["strait-node"].DeepCopy()
	more.Spec.Containers[0].SecurityContext.Capabilities.Add = append(more.Spec.Containers[0].SecurityContext.Capabilities.Add, "SYS_ADMIN")
	on.refuses("the SCC does not allow a capability", func() error { return on.create("strait-nodes", more) })
	on.admits(here)

	apply(t, on.cluster, withTun)
	kube.Until(t, "the SCC admits /dev/net/tun", func() string {
		if err := tun(); err != nil {
			return err.Error()
		}
		return ""
	})

	if args := here["strait-controller"].Spec.Containers[0].Args; !strings.Contains(strings.Join(args, " "), "--gateway-assigned-uid") {
		t.Errorf("the controller's arguments are %q", args)
	}
	run(t, on.cluster, find(t, all, "ConfigMap", "strait-controller"), func(o *controller.Options) { o.Gateways.AssignedUID = true })
	on.admitsGateways()
	on.admitsAgents()
}
