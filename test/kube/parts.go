package kube

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"testing"
)

// serviceCIDR is that of the cluster.
const serviceCIDR = "10.96.0.0/16"

// makeKeys generates the certificates and keys of the cluster, and writes those that the
// API server reads.
func (c *Cluster) makeKeys() error {
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	server, err := authority.issue(pkix.Name{CommonName: "kube-apiserver"}, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return err
	}
	c.ca = encode("CERTIFICATE", authority.certificate.Raw)
	c.admin, err = authority.issue(pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	if err != nil {
		return err
	}
	kubelets, err := authority.issue(pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}})
	if err != nil {
		return err
	}
	tokens, err := tokenKey()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": c.ca, "server.crt": server.certificate, "server.key": server.key, "tokens.key": tokens,
		"kubelets.crt": kubelets.certificate, "kubelets.key": kubelets.key,
	} {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startEtcd starts etcd on a socket in the cluster's directory, with the existing data. It
// is ready when the socket is.
func (c *Cluster) startEtcd(t testing.TB) {
	t.Helper()
	_ = os.Remove(c.file("etcd.sock")) // of a killed etcd, if there is one
	var err error
	c.etcd, err = run(c.file("etcd.log"), nil, c.programs.etcd,
		"--data-dir="+c.file("etcd"), "--name=test", "--log-level=warn",
		"--unsafe-no-fsync", // a crash of the machine ends the test anyway
		"--listen-client-urls=unix://"+c.file("etcd.sock"), "--listen-peer-urls=unix://"+c.file("peer.sock"),
		"--advertise-client-urls=http://localhost:2379", // required; no other client uses this etcd
		"--initial-advertise-peer-urls=http://localhost:2380", "--initial-cluster=test=http://localhost:2380")
	must(t, err)
	until(t, c.etcd, "etcd listens on its socket", func(context.Context) error {
		connection, err := net.Dial("unix", c.file("etcd.sock"))
		if err == nil {
			err = connection.Close()
		}
		return err
	})
}

// lazyCollector saves a third of the processor time of an API server's start: it allocates
// long-lived memory, which the garbage collector would scan repeatedly.
var lazyCollector = []string{"GOGC=400"}

// startServer starts the API server and returns when it is ready.
func (c *Cluster) startServer(t testing.TB) {
	t.Helper()
	audit, err := c.auditFlags()
	must(t, err)
	authorizers, more := "RBAC", audit
	if c.nodes {
		authorizers, more = "Node,RBAC", append(audit, "--enable-admission-plugins=NodeRestriction")
	}
	c.server, err = run(c.file("kube-apiserver.log"), lazyCollector, append([]string{c.programs.server,
		"--etcd-servers=unix://" + c.file("etcd.sock"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.port.number), "--permit-port-sharing",
		"--endpoint-reconciler-type=none",      // it would reject a loopback address
		"--enable-priority-and-fairness=false", // no other clients compete, and its setup delays readiness
		"--tls-cert-file=" + c.file("server.crt"), "--tls-private-key-file=" + c.file("server.key"),
		"--client-ca-file=" + c.file("ca.crt"), "--anonymous-auth=false", "--authorization-mode=" + authorizers,
		"--kubelet-client-certificate=" + c.file("kubelets.crt"), "--kubelet-client-key=" + c.file("kubelets.key"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("tokens.key"), "--service-account-signing-key-file=" + c.file("tokens.key"),
		"--service-cluster-ip-range=" + serviceCIDR}, more...)...)
	must(t, err)
	until(t, c.server, "kube-apiserver is ready", func(ctx context.Context) error {
		return c.client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *Cluster) killServer() {
	if c.server != nil {
		c.server.kill()
		c.server = nil
	}
}

func (c *Cluster) killEtcd() {
	if c.etcd != nil {
		c.etcd.kill()
		c.etcd = nil
	}
}
