//go:build apiserver || lab || nightly

package clusters

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
)

// gatewayPod runs a gateway from the StatefulSet of its Peering like a kubelet: its
// arguments and environment, its mounts, its readiness.
type gatewayPod struct {
	*netns.Namespace
	*program.Program
	c       *cluster
	name    string
	node    int
	address string
	uid     types.UID
	access  string // kubeconfig file
	set     *appsv1.StatefulSet
	port    int32             // NodePort of its Service, 0 if nothing serves it
	mounts  map[string]string // directories by their path in the container
	sync    context.CancelFunc
	synced  chan struct{}
}

// runGateway runs the pod of a gateway on a node, with the address host in the node's CIDR.
// It waits only for the StatefulSet, which must be that of the present Peering.
func (c *cluster) runGateway(t *testing.T, name string, node int, host string) *gatewayPod {
	t.Helper()
	peering := name[:strings.LastIndex(name, "-")]
	g := &gatewayPod{c: c, name: name, node: node, address: c.nodes[node].podNet + "." + host, mounts: map[string]string{}}
	within(t, 20*time.Second, "the controller created StatefulSet "+peering, func() (err error) {
		if g.set, err = c.admin.StatefulSets(gatewayNamespace).Get(t.Context(), peering, metav1.GetOptions{}); err != nil {
			return err
		}
		p, err := c.admin.Peerings().Get(t.Context(), peering, metav1.GetOptions{})
		if err == nil && !ownedBy(g.set, p.UID) {
			err = fmt.Errorf("the StatefulSet belongs to %v", g.set.OwnerReferences)
		}
		return err
	})
	g.Namespace = c.nodes[node].pod(t, host)
	program.Relay(t, g.Namespace, c.Admin())
	g.mount(t)
	g.createPod(t)
	g.startContainer(t)
	c.gateways[name] = g
	ctx, cancel := context.WithCancel(context.Background())
	g.sync, g.synced = cancel, make(chan struct{})
	go g.keep(ctx)
	t.Cleanup(func() { cancel(); <-g.synced })
	return g
}

// ownedBy reports whether an object has this owner.
func ownedBy(o metav1.Object, owner types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
}

// container returns the gateway's container.
func (g *gatewayPod) container() *corev1.Container { return &g.set.Spec.Template.Spec.Containers[0] }

// mount creates a directory for each mount.
func (g *gatewayPod) mount(t *testing.T) {
	t.Helper()
	for i, m := range g.container().VolumeMounts {
		dir := filepath.Join(g.c.dir, g.name, fmt.Sprint(i))
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.Chmod(dir, 0o777)) // like an emptyDir
		g.mounts[m.MountPath] = dir
	}
	must(t, g.syncSecrets(t.Context()))
}

// syncSecrets writes the current Secrets of the pod's volumes to its mounts.
func (g *gatewayPod) syncSecrets(ctx context.Context) error {
	list, err := g.c.admin.Secrets(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	all := make(map[string]*corev1.Secret, len(list.Items))
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	for _, m := range g.container().VolumeMounts {
		for _, v := range g.set.Spec.Template.Spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			secrets, wanted := secretsOf(v), map[string]bool{}
			for _, s := range secrets {
				secret, ok := all[s.Name]
				switch {
				case ok:
					err = syncSecret(g.mounts[m.MountPath], s, secret, wanted)
				case s.Optional == nil || !*s.Optional:
					err = fmt.Errorf("no Secret %s", s.Name)
				}
				if err != nil {
					return err
				}
			}
			if len(secrets) == 0 {
				continue // an emptyDir belongs to the gateway
			}
			if err := removeBut(g.mounts[m.MountPath], wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

// secretsOf returns the Secrets of a volume.
func secretsOf(v corev1.Volume) (all []corev1.SecretProjection) {
	if v.Secret != nil {
		all = append(all, corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional,
		})
	}
	if v.Projected != nil {
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				all = append(all, *source.Secret)
			}
		}
	}
	return all
}

// syncSecret writes one Secret, and records its files in wanted.
func syncSecret(dir string, s corev1.SecretProjection, secret *corev1.Secret, wanted map[string]bool) error {
	paths := map[string]string{}
	for key := range secret.Data {
		paths[key] = key
	}
	if len(s.Items) > 0 {
		clear(paths)
		for _, item := range s.Items {
			paths[item.Key] = item.Path
		}
	}
	for key, path := range paths {
		value, ok := secret.Data[key]
		if !ok {
			continue
		}
		file := filepath.Join(dir, path)
		wanted[file] = true
		if is, err := os.ReadFile(file); err == nil && string(is) == string(value) {
			continue
		}
		if err := replaceFile(file, value); err != nil {
			return err
		}
	}
	return nil
}

// removeBut removes the files in a directory that are not wanted.
func removeBut(dir string, wanted map[string]bool) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if file := filepath.Join(dir, e.Name()); e.Type().IsRegular() && !wanted[file] {
			err = os.Remove(file)
		}
	}
	return err
}

// replaceFile replaces a file atomically.
func replaceFile(file string, value []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", value, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// createPod creates the Pod object.
func (g *gatewayPod) createPod(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: g.set.Spec.Template.ObjectMeta, Spec: *g.set.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.Spec.NodeName = g.name, nodeName(g.node)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(g.set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	pod.Labels["statefulset.kubernetes.io/pod-name"] = g.name
	automount := false
	pod.Spec.AutomountServiceAccountToken = &automount // no controller creates tokens here
	pod, err := g.c.admin.Pods(gatewayNamespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	g.uid = pod.UID
	g.access = program.Kubeconfig(t, g.c.dir, g.name+"-"+string(g.uid), g.c.BoundToken(t, pod))
	must(t, g.writeStatus(t.Context(), false))
}

// writeStatus writes the pod's status. The controller writes conditions of its own into it.
func (g *gatewayPod) writeStatus(ctx context.Context, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pods := g.c.admin.Pods(gatewayNamespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod, err := pods.Get(ctx, g.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: g.c.nodes[g.node].address, PodIP: g.address, PodIPs: []corev1.PodIP{{IP: g.address}},
			Conditions: append(others, corev1.PodCondition{Type: corev1.PodReady, Status: status}),
		}
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// startContainer starts the gateway as specified by its container.
func (g *gatewayPod) startContainer(t *testing.T) {
	t.Helper()
	values := map[string]string{"POD_NAME": g.name, "POD_IPS": g.address, "POD_NAMESPACE": gatewayNamespace, "POD_UID": string(g.uid)}
	env := []string{}
	for _, e := range g.container().Env {
		if e.Value != "" {
			values[e.Name] = e.Value
		}
		if value, ok := values[e.Name]; ok {
			env = append(env, e.Name+"="+value)
		}
	}
	var args []string
	for _, arg := range g.container().Args {
		for name, value := range values {
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		args = append(args, g.hostPath(arg))
	}
	args = append(args, "--kubeconfig", g.access)
	g.Program = program.Start(t, g.c.name+"/"+g.name, g.Namespace, program.Unprivileged, env, args...)
}

// hostPath replaces the container's mount path in an argument by the directory of the
// mount: the longest match.
func (g *gatewayPod) hostPath(arg string) string {
	longest := ""
	for inside := range g.mounts {
		if strings.Contains(arg, inside) && len(inside) > len(longest) {
			longest = inside
		}
	}
	if longest == "" {
		return arg
	}
	return strings.Replace(arg, longest, g.mounts[longest], 1)
}

// keep does the kubelet's work until ctx ends. Failures are retried, more rarely: while the API server is away, nothing of the work
// has an effect, and it takes CPU time.
func (g *gatewayPod) keep(ctx context.Context) {
	defer close(g.synced)
	ready := false
	for ctx.Err() == nil {
		pause := 200 * time.Millisecond
		if g.syncSecrets(ctx) != nil {
			pause = time.Second
		}
		if is := g.ready(); is != ready && g.writeStatus(ctx, is) == nil {
			ready = is
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// ready queries the gateway's readiness.
func (g *gatewayPod) ready() bool {
	_, status, err := g.get("/readyz")
	return err == nil && status == http.StatusOK
}

// get sends an HTTP request to the gateway.
func (g *gatewayPod) get(path string) (body string, status int, err error) {
	ask := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
			err = g.In(func() error { conn, err = net.DialTimeout(network, address, time.Second); return err })
			return conn, err
		}}}
	answer, err := ask.Get("http://" + g.address + ":8080" + path)
	if err != nil {
		return "", 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), answer.StatusCode, err
}

// remove removes the pod as when its node disappears: at once, with its object.
func (g *gatewayPod) remove(t *testing.T) {
	t.Helper()
	g.sync()
	<-g.synced
	g.Kill()
	now := int64(0)
	must(t, g.c.admin.Pods(gatewayNamespace).Delete(t.Context(), g.name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	delete(g.c.gateways, g.name)
}
