package program

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"strait.dev/strait/test/netns"
)

// Kubeconfig writes a file with access to an API server, readable by every user, and
// returns its path.
func Kubeconfig(t testing.TB, dir, name string, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(dir, name+".kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"cluster": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: "cluster", AuthInfo: name}},
		CurrentContext: name,
	}, file)
	if err == nil {
		err = os.Chmod(file, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Relay lets programs in a namespace reach an API server that listens on loopback outside:
// at the same address inside, so that its certificate is valid.
func Relay(t testing.TB, n *netns.Namespace, config *rest.Config) {
	t.Helper()
	address := strings.TrimPrefix(config.Host, "https://")
	var inside net.Listener
	err := n.In(func() (err error) {
		inside, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	go func() {
		for {
			from, err := inside.Accept()
			if err != nil {
				return // the test has ended
			}
			go join(from, address)
		}
	}()
}

// join copies bytes in both directions until either end closes. If no process listens it
// closes the connection, as a kernel refuses it.
func join(from net.Conn, address string) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		_ = from.Close()
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // only its end matters
			_, _ = from.Close(), to.Close()
		})
	}
	both.Wait()
}
