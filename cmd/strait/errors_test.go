package main

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

// kubeconfig writes a file with a context of each name.
func kubeconfig(t *testing.T, contexts map[string]*rest.Config) string {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for name, c := range contexts {
		all.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
		all.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken, ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*all, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// inviteUntil is the token of an invite of cluster b.
func inviteUntil(t *testing.T, notAfter time.Time) string {
	t.Helper()
	key, err := operator.NewPrivateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	text, err := operator.Invite{ClusterID: "b", PrivateKey: key, NotAfter: notAfter.UTC().Truncate(time.Second), Gateways: []operator.InviteGateway{
		{Name: "a-0", PublicKey: public, Endpoints: []v1alpha1.Endpoint{"192.0.2.1:51840"}}}}.Token()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// mistake is a command line that fails, and parts of its error.
type mistake struct {
	name, args string
	code       int
	says       []string // the cause and the remedy
}

// fail runs command lines that fail, and checks what all errors have in common.
func fail(t *testing.T, stdin string, all ...mistake) {
	t.Helper()
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			_, stderr, code := output(stdin, strings.Fields(m.args)...)
			if code != m.code {
				t.Errorf("strait %s ends with %d, want %d", m.args, code, m.code)
			}
			for _, want := range m.says {
				if !strings.Contains(stderr, want) {
					t.Errorf("strait %s says\n%s\nwant %q in it", m.args, stderr, want)
				}
			}
			message, _, _ := strings.Cut(stderr[max(0, strings.LastIndex("\n"+stderr, "\nstrait: ")):], "\nstrait: run ") // after progress
			if !strings.HasPrefix(message, "strait: ") || strings.Contains(message, "client: ") || strings.Contains(message, "goroutine ") || len(message) > 600 {
				t.Errorf("strait %s says\n%s\nwhich is not one readable message", m.args, stderr)
			}
		})
	}
}

func TestErrorsOfClustersNameTheCauseAndTheRemedy(t *testing.T) {
	cluster := fakekube.New()
	cluster.DeleteCRDs()
	admin := fakekube.Serve(t, cluster.Config())
	closed := httptest.NewServer(nil)
	closed.Close()
	distrusted := rest.CopyConfig(admin)
	distrusted.CAData = nil
	unknown := rest.CopyConfig(admin)
	unknown.BearerToken = "not.a.token"
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{
		"a": admin, "restricted": fakekube.Serve(t, cluster.ServiceAccount(t, "default", "restricted")), "unknown": unknown, "distrusted": distrusted,
		"refused": {Host: closed.URL}, "nameless": {Host: "https://api.invalid:6443"},
	}))

	fail(t, "",
		mistake{"a context that is not there", "status --context c", exitFailed,
			[]string{`there is no context "c"; choose one of: a, distrusted, nameless, refused, restricted, unknown`}},
		mistake{"no current context", "status", exitFailed, []string{"there is no current context; choose one of: a, "}},
		mistake{"a file that is not there", "status --kubeconfig /nowhere", exitFailed, []string{"kubeconfig /nowhere: no such file or directory; check the path"}},
		mistake{"missing CRDs", "status --context a", exitFailed, []string{"context a: ", "Strait's CRDs are not installed; install Strait in that cluster first"}},
		mistake{"missing CRDs, to peer", "peer --context a --remote-context a", exitFailed, []string{"Strait's CRDs are not installed; install Strait"}},
		mistake{"a closed port", "status --context refused", exitFailed,
			[]string{"context refused: the API server cannot be reached; check that the context is the right one and that kubectl reaches it", "connection refused"}},
		mistake{"no such name", "status --context nameless", exitFailed, []string{"context nameless: the API server cannot be reached; check that"}},
		mistake{"an untrusted certificate", "status --context distrusted", exitFailed, []string{"context distrusted: ", "certificate", "check that the context is the right one"}},
		mistake{"an unknown token", "status --context unknown", exitFailed, []string{"context unknown: ", "not authenticated; log in again, or select another context"}},
	)
	cluster.InstallCRDs()
	fail(t, "",
		mistake{"forbidden", "status --context restricted", exitFailed, []string{"context restricted: read ClusterNetworks: ", "forbidden", "use a context with the necessary permissions"}},
		mistake{"forbidden, to peer", "peer --context a --remote-context restricted", exitFailed, nil},
		mistake{"no controller", "status --context a", exitFailed, []string{"context a: the controller has not reported the status of ClusterNetwork default yet", "check that strait controller runs"}},
	)

	madeOfAnotherVersion(t, cluster.Client(t))
	t.Run("an invite", func(t *testing.T) {
		fail(t, inviteUntil(t, time.Now().Add(-time.Hour)), mistake{"expired", "accept --context a", exitFailed, []string{"the invite of cluster b expired at ", "; request a new invite"}})
		fail(t, "c2VjcmV0IGdhcmJhZ2U=", mistake{"garbage", "accept --context a", exitFailed, []string{"not a token: pass the line that strait invite printed"}})
		fail(t, inviteUntil(t, time.Now().Add(time.Hour))[:100], mistake{"cut", "accept --context a", exitFailed, []string{"the token is incomplete: copy the whole line"}})
		fail(t, inviteUntil(t, time.Now().Add(time.Hour)), mistake{"forbidden", "accept --context restricted", exitFailed, []string{"forbidden", "use a context with the necessary permissions"}})
	})
	t.Run("gather", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "all.tar.gz")
		fail(t, "",
			mistake{"with few rights", "gather --context restricted --remote-context refused --file " + file, exitFailed,
				[]string{"the bundle is incomplete: see index.html in it for what could not be read:\nstrait:   context restricted: ", " missing, the first is ", "\nstrait:   context refused: 1 missing, the first is everything: "}},
			mistake{"into a folder that is not there", "gather --context a --file /nowhere/x.tar.gz", exitFailed, []string{"--file /nowhere/x.tar.gz: no such file or directory; check the path"}},
			mistake{"of no size", "gather --context a --max-size 1k", exitUsage, []string{"--max-size 1k: give 1Mi or more"}},
			mistake{"of the future", "gather --context a --since -1h", exitUsage, []string{"--since -1h0m0s: give a positive duration"}},
		)
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the archive: %v, %v", info, err)
		}
		if left, _ := filepath.Glob(filepath.Dir(file) + "/*.part"); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
		out, stderr, code := output("", "gather", "--context", "a", "--file", "-")
		if code != exitOK || !strings.HasPrefix(out, "\x1f\x8b") {
			t.Errorf("--file - ends with %d and says %s", code, stderr)
		}
	})
	t.Run("a peer of another version", func(t *testing.T) {
		out, stderr, code := output("", "status", "b", "--context", "a")
		if code != exitFailed || stderr != "strait: not all peerings are ready: do what the table says\n" ||
			!strings.Contains(out, "not ready: gateway b-0 and the remote cluster cannot exchange announcements: the far end speaks versions [2] of the control protocol, this gateway [1]: upgrade this gateway") ||
			!strings.Contains(out, "✗ announced") {
			t.Errorf("status ends with %d and says\n%s%s", code, out, stderr)
		}
	})
}

// madeOfAnotherVersion makes cluster a with Peering b, whose remote gateway is of a later version.
func madeOfAnotherVersion(t *testing.T, c *client.Client) {
	t.Helper()
	network := &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}}
	if _, err := c.ClusterNetworks().Apply(t.Context(), network, "test"); err != nil {
		t.Fatal(err)
	}
	network.Status = v1alpha1.ClusterNetworkStatus{ClusterID: "a", PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}}
	if _, err := c.ClusterNetworks().ApplyStatus(t.Context(), network, "test"); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{ClusterID: "b"}}
	made, err := c.Peerings().Apply(t.Context(), p, "test")
	if err != nil {
		t.Fatal(err)
	}
	const skew = "gateway b-0 and the remote cluster cannot exchange announcements: the far end speaks versions [2] of the control protocol, this gateway [1]: upgrade this gateway; install the same version of Strait in both clusters"
	p.Spec = v1alpha1.PeeringSpec{} // the status alone
	for _, kind := range []string{v1alpha1.ConditionAnnounced, v1alpha1.ConditionReady} {
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "VersionSkew", Message: skew,
			ObservedGeneration: made.Generation, LastTransitionTime: metav1.Now()})
	}
	if _, err := c.Peerings().ApplyStatus(t.Context(), p, "test"); err != nil {
		t.Fatal(err)
	}
}
