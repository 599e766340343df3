//go:build nightly

package scale

import (
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
)

// The Peering, and the gateway for it.
const (
	peeringName = "far"
	gatewayName = "far-0"
)

// farPrivateKey and its derived values need not be secret: the network is isolated.
var (
	farPrivateKey = base64.StdEncoding.EncodeToString([]byte("a key for the far gateway, 32 by"))
	farPublicKey  = publicKey(farPrivateKey)
)

func publicKey(private string) string {
	bytes, err := base64.StdEncoding.DecodeString(strings.TrimSpace(private))
	if err != nil {
		panic(err) // the error is not shown: it contains a key
	}
	key, err := ecdh.X25519().NewPrivateKey(bytes)
	if err != nil {
		panic("not a private key")
	}
	return base64.StdEncoding.EncodeToString(key.PublicKey().Bytes())
}

// peer creates the Peering and waits until its gateway has a node and a key.
func (w *world) peer(t *testing.T) {
	_, err := w.admin.Peerings().Apply(t.Context(), &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: peeringName},
		Spec: v1alpha1.PeeringSpec{
			ClusterID: "far", LocalPods: true,
			Prefixes:         v1alpha1.RemotePrefixes{{CIDR: "10.0.0.0/16"}},
			ExternalPrefixes: v1alpha1.RemotePrefixes{{CIDR: "10.70.0.0/16"}},
			Gateway:          v1alpha1.GatewaySpec{Replicas: 1},
			Peers:            []v1alpha1.Peer{{Name: "near-0", PublicKey: v1alpha1.PublicKey(farPublicKey), Endpoint: farGateway + ":51840"}},
		},
	}, "admin")
	must(t, err)
	within(t, 2*time.Minute, "the gateway has a node, a StatefulSet and a key", func() error {
		p, err := w.admin.Peerings().Get(t.Context(), peeringName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(p.Status.Gateways) == 0 || len(p.Status.Prefixes) == 0 {
			return fmt.Errorf("%+v", p.Status)
		}
		if _, err := w.admin.StatefulSets(gatewayNamespace).Get(t.Context(), peeringName, metav1.GetOptions{}); err != nil {
			return err
		}
		_, err = w.gatewayKey(t.Context())
		return err
	})
}

func (w *world) gatewayKey(ctx context.Context) (string, error) {
	secret, err := w.admin.Secrets(gatewayNamespace).Get(ctx, gatewayName+"-key-1", metav1.GetOptions{})
	if err == nil && len(secret.Data["1.key"]) == 0 {
		err = errors.New("the Secret has no key yet")
	}
	if err != nil {
		return "", err
	}
	return string(secret.Data["1.key"]), nil
}

// startRemote runs the far cluster's gateway with a configuration file. Its only node is
// farNode.
func (w *world) startRemote(t *testing.T) watched {
	key, err := w.gatewayKey(t.Context())
	must(t, err)
	dir := w.folder(t, "far")
	private := filepath.Join(dir, "private.key")
	must(t, os.WriteFile(private, []byte(farPrivateKey), 0o644))
	file := filepath.Join(dir, "gateway.yaml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: far
overlay:
  listen: "%s:6091"
  addresses: [%s]
  nodes:
  - {name: node, underlay: %s, vni: %d, addresses: [%s], prefixes: [10.0.1.0/24]}
wireguard:
  privateKeyFile: %s
  peers:
  - {name: far-0, publicKey: "%s", endpoint: "%s:51840"}
local:
  prefixes: [10.0.0.0/16]
remote:
  cluster: near
  prefixes:
  - {cidr: %s, seenAs: %s}
  - {cidr: %s, seenAs: %s}
observability:
  listen: ":8080"
`, farGateway, farInternal, farNode, farVNI, farNodeInternal, private, publicKey(key), nearGateway,
		podRange, podRangeSeen, outsideRange, outsideRangeSeen), 0o644))
	far := watched{"far gateway", "", program.Start(t, "the far gateway", w.far, program.Unprivileged, nil, "gateway", "--config", file)}
	within(t, time.Minute, "the far gateway runs", func() error { return healthy(w.far, farGateway, "/healthz") })
	return far
}

// startGateway runs the measured gateway, as its StatefulSet specifies.
func (w *world) startGateway(t *testing.T) watched {
	key, err := w.gatewayKey(t.Context())
	must(t, err)
	set, err := w.admin.StatefulSets(gatewayNamespace).Get(t.Context(), peeringName, metav1.GetOptions{})
	must(t, err)
	limit := set.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
	pod := createPod(t, w.admin, set, gatewayName, nearGateway)
	keys, cache := w.folder(t, "keys"), w.folder(t, "cache")
	must(t, os.WriteFile(filepath.Join(keys, "1.key"), []byte(key), 0o644))
	must(t, os.Chmod(cache, 0o777)) // like an emptyDir
	return watched{"gateway", "system:serviceaccount:" + gatewayNamespace + ":strait-gateway",
		program.Start(t, "the gateway", w.near, program.Unprivileged, []string{fmt.Sprintf("GOMEMLIMIT=%d", limit)},
			"gateway", "--peering", peeringName, "--namespace", gatewayNamespace, "--name", gatewayName, "--pod-uid", string(pod.UID), "--pod-ips", nearGateway,
			"--key-dir", keys, "--cache-dir", cache, "--kubeconfig", w.access.gateway)}
}

// createPod creates the ready pod of a gateway, as its StatefulSet and a kubelet do.
func createPod(t *testing.T, c *client.Client, set *appsv1.StatefulSet, name, address string) *corev1.Pod {
	t.Helper()
	pod, err := c.Pods(gatewayNamespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "strait-gateway", AutomountServiceAccountToken: new(bool), NodeName: nodeName(1),
			Containers: []corev1.Container{{Name: "gateway", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address}}, PodIP: address,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	pod, err = c.Pods(gatewayNamespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
	return pod
}

// awaitGateway waits until the gateway serves all listed pods.
func (w *world) awaitGateway(t *testing.T) {
	within(t, 5*time.Minute, "the gateway is ready", func() error { return healthy(w.near, nearGateway, "/readyz") })
}

// folder creates a directory that every user can read.
func (w *world) folder(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(w.dir, name)
	must(t, os.Mkdir(dir, 0o755))
	return dir
}

func healthy(n *netns.Namespace, address, path string) error {
	_, err := get(n, address, path)
	return err
}

// get sends an HTTP request to a gateway, from its namespace.
func get(n *netns.Namespace, address, path string) (string, error) {
	ask := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, to string) (conn net.Conn, err error) {
			err = n.In(func() error { conn, err = net.DialTimeout(network, to, time.Second); return err })
			return conn, err
		}}}
	answer, err := ask.Get("http://" + address + ":8080" + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}
