package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// StartMetalLB installs MetalLB with its own manifest and returns when it assigns addresses
// to Services of type LoadBalancer, which it announces in the network of the nodes by ARP:
// 172.30.INDEX.201 to 172.30.INDEX.250.
//
// Its webhook, which validates its own objects, is left out: the API server has no route to
// Services.
func (c *Cluster) StartMetalLB(t testing.TB) {
	t.Helper()
	objects, err := metalLBObjects(c.lab.programs)
	must(t, err)
	must(t, c.create(t.Context(), objects))
	must(t, until(t.Context(), c.nodes[0].kubelet, "MetalLB of "+c.name+" is ready", func(ctx context.Context) error {
		speakers, err := c.api.AppsV1().DaemonSets(metalLB).Get(ctx, "speaker", metav1.GetOptions{})
		if err != nil {
			return err
		}
		controller, err := c.api.AppsV1().Deployments(metalLB).Get(ctx, "controller", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if speakers, controllers := int(speakers.Status.NumberReady), controller.Status.ReadyReplicas; speakers < len(c.nodes) || controllers == 0 {
			return fmt.Errorf("%d speakers and %d controllers are ready", speakers, controllers)
		}
		return nil
	}))
	must(t, c.create(t.Context(), fmt.Sprintf(`
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: lan, namespace: %[1]s}
spec: {addresses: [%[2]s-%[3]s]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: lan, namespace: %[1]s}
`, metalLB, ipv4.underlay(c.index, 201), ipv4.underlay(c.index, 250))))
}

// metalLB is the namespace of MetalLB.
const metalLB = "metallb-system"

// metalLBObjects returns the objects of MetalLB's manifest. Its pods run the given
// directory's programs, as CoreDNS does, and are probed every second.
func metalLBObjects(programs string) (string, error) {
	manifest, err := os.Open(filepath.Join(programs, "metallb-native.yaml"))
	if err != nil {
		return "", err
	}
	defer manifest.Close()
	var all strings.Builder
	for in := yaml.NewYAMLOrJSONDecoder(manifest, 4096); ; {
		var object unstructured.Unstructured
		if err := in.Decode(&object.Object); errors.Is(err, io.EOF) {
			return all.String(), nil
		} else if err != nil {
			return "", fmt.Errorf("%s: %w", manifest.Name(), err)
		}
		switch object.GetKind() {
		case "ValidatingWebhookConfiguration":
			continue
		case "Deployment", "DaemonSet":
			if err := runPrograms(object.Object, programs); err != nil {
				return "", err
			}
		}
		text, err := object.MarshalJSON()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "%s---\n", text)
	}
}

// runPrograms changes a workload of MetalLB.
func runPrograms(workload map[string]any, programs string) error {
	fields, _, err := unstructured.NestedMap(workload, "spec", "template")
	if err != nil {
		return err
	}
	var pod corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &pod); err != nil {
		return err
	}
	container := &pod.Spec.Containers[0]
	container.Image, container.Command = Busybox, []string{"/programs/metallb-" + container.Name}
	if container.Name == "controller" {
		container.Args = append(container.Args, "--webhook-mode=disabled")
	}
	container.ReadinessProbe.InitialDelaySeconds, container.ReadinessProbe.PeriodSeconds = 0, 1
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "programs", MountPath: "/programs", ReadOnly: true})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "programs", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: programs}}})
	if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&pod); err != nil {
		return err
	}
	return unstructured.SetNestedMap(workload, fields, "spec", "template")
}
