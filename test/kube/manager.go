package kube

import (
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
	program := Program(t, "kube-controller-manager")
	admin := c.Admin()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	must(t, clientcmd.WriteToFile(*config, c.file("manager.kubeconfig")))
	manager, err := run(c.file("kube-controller-manager.log"), nil, program, "--kubeconfig="+c.file("manager.kubeconfig"),
		"--leader-elect=false", "--secure-port=0", "--controllers="+strings.Join(controllers, ","))
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the output of kube-controller-manager:\n%s", manager.tail())
		}
		manager.kill()
	})
}
