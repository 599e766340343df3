package kube

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// StartControllerManager starts a kube-controller-manager that runs only these controllers,
// until the test ends. It skips the test if the program is missing. The API server must keep
// running.
func (c *Cluster) StartControllerManager(t testing.TB, controllers ...string) {
	t.Helper()
	c.startPart(t, "kube-controller-manager", "--controllers="+strings.Join(controllers, ","))
}

// StartScheduler starts a kube-scheduler until the test ends. It skips the test if the program
// is missing. The API server must keep running.
func (c *Cluster) StartScheduler(t testing.TB) {
	t.Helper()
	c.startPart(t, "kube-scheduler")
}

// startPart starts a program of the control plane as admin.
func (c *Cluster) startPart(t testing.TB, name string, arguments ...string) {
	t.Helper()
	admin := c.Admin()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	file := c.file(name + ".kubeconfig")
	must(t, clientcmd.WriteToFile(*config, file))
	StartProgram(t, name, append([]string{"--kubeconfig=" + file, "--leader-elect=false", "--secure-port=0"}, arguments...)...)
}

// StartProgram starts a program that test/kube/prepare builds, until the test ends or this
// process does. It skips the test if the program is missing.
func StartProgram(t testing.TB, name string, arguments ...string) {
	t.Helper()
	p, err := run(filepath.Join(t.TempDir(), name+".log"), nil, append([]string{Program(t, name)}, arguments...)...)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the output of %s:\n%s", name, p.tail())
		}
		p.kill()
	})
}
