package nodes

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
)

// startControl starts the control plane and returns when its API is ready.
func (c *Cluster) startControl(network *netns.Namespace) error {
	groups, err := c.lab.cgroups.child(c.name + "-control")
	if err != nil {
		return err
	}
	start := func(name string, args ...string) (*process, error) {
		return c.lab.start(&process{name: c.name + "/" + name, log: c.file(name + ".log"), network: network, cgroups: groups,
			command: append([]string{filepath.Join(c.lab.programs, name)}, args...)})
	}
	if _, err := start("etcd", "--data-dir="+c.file("etcd"), "--log-level=warn", "--unsafe-no-fsync"); err != nil {
		return err
	}
	address := c.families[0].underlay(c.index, 1)
	c.server, err = start("kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
		"--bind-address="+address, "--advertise-address="+address,
		"--service-cluster-ip-range="+list(c.families, func(f family) string { return f.services }),
		"--tls-cert-file="+c.file("server.crt"), "--tls-private-key-file="+c.file("server.key"), "--client-ca-file="+c.file("ca.crt"),
		"--kubelet-client-certificate="+c.file("admin.crt"), "--kubelet-client-key="+c.file("admin.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.file("tokens.key"), "--service-account-signing-key-file="+c.file("tokens.key"))
	if err != nil {
		return err
	}
	if err := c.serving(); err != nil {
		return err
	}
	manager, err := c.access("system:kube-controller-manager")
	if err != nil {
		return err
	}
	scheduler, err := c.access("system:kube-scheduler")
	if err != nil {
		return err
	}
	if _, err := start("kube-controller-manager", "--kubeconfig="+manager, "--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file="+c.file("tokens.key"), "--root-ca-file="+c.file("ca.crt")); err != nil {
		return err
	}
	_, err = start("kube-scheduler", "--kubeconfig="+scheduler, "--leader-elect=false")
	return err
}

// serving returns when the API server is ready.
func (c *Cluster) serving() error {
	return until(c.lab.ctx, c.server, "kube-apiserver's /readyz", func(ctx context.Context) error {
		return c.api.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// RestartAPIServer kills the API server, and starts it again after a time. It returns when the
// API server is ready.
func (c *Cluster) RestartAPIServer(t testing.TB, away time.Duration) {
	t.Helper()
	c.server.kill()
	time.Sleep(away)
	must(t, c.server.start())
	must(t, c.serving())
}
