//go:build apiserver

package chart

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// forbidden returns the reasons for which Kubernetes' Pod Security admission rejects a pod
// at a level.
func forbidden(t *testing.T, level api.Level, pod *corev1.PodTemplateSpec) []string {
	t.Helper()
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	var reasons []string
	for _, result := range judge.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			reasons = append(reasons, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// pods returns the templates of all pods, by the names of their workloads.
func pods(t *testing.T, all []*unstructured.Unstructured) map[string]*corev1.PodTemplateSpec {
	t.Helper()
	found := make(map[string]*corev1.PodTemplateSpec)
	for _, object := range all {
		fields, ok, err := unstructured.NestedMap(object.Object, "spec", "template")
		must(t, err)
		if !ok || object.GetAPIVersion() != "apps/v1" && object.GetAPIVersion() != "batch/v1" {
			continue
		}
		pod := new(corev1.PodTemplateSpec)
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, pod, true))
		found[object.GetName()] = pod
	}
	return found
}

func TestEveryPodExceptTheNodeHelperIsRestricted(t *testing.T) {
	t.Parallel()
	for name, args := range renders {
		all := pods(t, render(t, args...))
		for _, wanted := range []string{"strait-controller", "strait-node", "strait-uninstall", "strait-verify"} {
			if all[wanted] == nil {
				t.Errorf("%s: no pod of %s", name, wanted)
			}
		}
		for of, pod := range all {
			if of == "strait-node" {
				continue
			}
			if reasons := forbidden(t, api.LevelRestricted, pod); len(reasons) > 0 {
				t.Errorf("%s: %s: %q", name, of, reasons)
			}
			if !*pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: %s can write to its root", name, of)
			}
		}
	}
}

// The node helper needs and has exactly these privileges.
func TestNodeHelperHasOnlyHostNetworkAndNetAdmin(t *testing.T) {
	t.Parallel()
	network := []string{
		`host namespaces: hostNetwork=true`,
		`hostPort: container "node" uses hostPort 6093`,
		`non-default capabilities: container "node" must not include "NET_ADMIN" in securityContext.capabilities.add`,
	}
	for name, want := range map[string][]string{
		"default": network, "minimal": network,
		"full": {network[0], `hostPath volumes: volume "tun"`, network[1], network[2]},
	} {
		pod := pods(t, render(t, renders[name]...))["strait-node"]
		if got := forbidden(t, api.LevelBaseline, pod); !slices.Equal(got, want) {
			t.Errorf("%s: it violates the baseline standard with %q, want %q", name, got, want)
		}
		security := pod.Spec.Containers[0].SecurityContext
		if !slices.Equal(security.Capabilities.Add, []corev1.Capability{"NET_ADMIN"}) || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			*security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || security.Privileged != nil || len(pod.Spec.Containers) != 1 {
			t.Errorf("%s: its security context is %+v", name, security)
		}
		if pod.Spec.HostPID || pod.Spec.HostIPC || !pod.Spec.HostNetwork || pod.Spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: its pod is %+v", name, pod.Spec)
		}
	}
}
