package nodes

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"strait.dev/strait/test/kube"
)

// makeKeys creates the certificates of a cluster and its kubeconfig files.
func (c *Cluster) makeKeys() (err error) {
	if c.authority, err = kube.NewAuthority(); err != nil {
		return err
	}
	certificate, key, err := c.authority.Server("kube-apiserver", net.ParseIP(c.families[0].underlay(c.index, 1)), net.ParseIP(c.families[0].api))
	if err != nil {
		return err
	}
	tokens, err := kube.TokenKey()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": c.authority.Certificate(), "server.crt": certificate, "server.key": key, "tokens.key": tokens,
	} {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return err
		}
	}
	if c.admin, err = c.client("admin", "system:masters"); err != nil {
		return err
	}
	return c.writeAdmin()
}

// writeAdmin writes the keys of admin, with which the API server also connects to kubelets.
func (c *Cluster) writeAdmin() error {
	if err := os.WriteFile(c.file("admin.crt"), c.admin.CertData, 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.file("admin.key"), c.admin.KeyData, 0o600)
}

// client returns the configuration of a user of the cluster.
func (c *Cluster) client(user string, groups ...string) (*rest.Config, error) {
	certificate, key, err := c.authority.Client(user, groups...)
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(c.families[0].underlay(c.index, 1), "6443"),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.Certificate(), CertData: certificate, KeyData: key},
	}, err
}

// access writes a kubeconfig file for a user, and returns its path.
func (c *Cluster) access(user string, groups ...string) (string, error) {
	config, err := c.client(user, groups...)
	if err != nil {
		return "", err
	}
	file := c.file(user[strings.LastIndex(user, ":")+1:] + ".kubeconfig")
	return file, writeKubeconfig(file, map[string]*rest.Config{c.name: config})
}

// writeKubeconfig writes a file with a context for each configuration.
func writeKubeconfig(file string, contexts map[string]*rest.Config) error {
	text := clientcmdapi.NewConfig()
	for name, config := range contexts {
		text.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
		text.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
		text.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		if len(contexts) == 1 {
			text.CurrentContext = name
		}
	}
	return clientcmd.WriteToFile(*text, file)
}

// create creates objects of the cluster.
func (c *Cluster) create(ctx context.Context, objects string) error {
	access, err := c.access("admin", "system:masters")
	if err != nil {
		return err
	}
	create := c.lab.Command(ctx, "kubectl", "--kubeconfig="+access, "create", "--validate=false", "--filename=-")
	create.Stdin = strings.NewReader(objects)
	if out, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("create objects: %w: %s", err, out)
	}
	return nil
}

// Admin returns the configuration of a client in this process with all permissions. Every
// call returns a new copy.
func (c *Cluster) Admin() *rest.Config {
	config := rest.CopyConfig(c.admin)
	config.QPS = -1 // no client-side rate limit
	config.Dial = func(_ context.Context, network, address string) (conn net.Conn, err error) {
		err = c.lab.router.In(func() error {
			conn, err = net.Dial(network, address)
			return err
		})
		return conn, err
	}
	return config
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }
