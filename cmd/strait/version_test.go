package main

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/test/fakekube"
)

func TestTheVersionIsThatOfTheLinkerElseThatOfTheModule(t *testing.T) {
	for _, c := range []struct{ linked, module, want string }{
		{"v0.1.0", "v0.0.0-20260101000000-0123456789ab", "v0.1.0"},
		{"dev", "v0.1.0", "v0.1.0"}, // go install ...@latest
		{"dev", "(devel)", "dev"},
		{"dev", "", "dev"},
	} {
		if is := versionOf(c.linked, c.module); is != c.want {
			t.Errorf("linked %q, module %q: version %q, want %q", c.linked, c.module, is, c.want)
		}
	}
}

func TestVersionNamesTheVersionsOfBothClusters(t *testing.T) {
	labels := map[string]string{install.NameLabel: install.Name, install.ComponentLabel: install.Controller}
	controller := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: install.ControllerName, Labels: labels},
		Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: install.Controller, Image: "strait.dev/strait:0.2.0"}}}}},
	}
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{
		"a": fakekube.Serve(t, fakekube.New(controller).Config()), "b": fakekube.Serve(t, fakekube.New().Config()),
	}))
	out, stderr, code := output("", "version", "--context", "a", "--remote-context", "b")
	want := versionLine() + "\n\ncontext a\nPART        NAME               VERSION  UPDATED  READY\ncontroller  strait-controller  0.2.0    0/1      0/1\n\ncontext b: Strait is not installed\n"
	if code != exitOK || out != want {
		t.Errorf("ends with %d and prints\n%s%s\nwant\n%s", code, out, stderr, want)
	}
	out, _, _ = output("", "version", "--context", "a", "-o", "json")
	var v versions
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Go == "" || len(v.Clusters) != 1 || v.Clusters[0].Parts[0].Version != "0.2.0" {
		t.Errorf("-o json prints %s: %v", out, err)
	}
}

func TestVersionWithoutAContextIsThatOfTheClientAlone(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	for file, why := range map[string]string{"": "the kubeconfig has no contexts; set --kubeconfig or KUBECONFIG", "/nowhere/config": "KUBECONFIG names /nowhere/config, which does not exist"} {
		t.Setenv("KUBECONFIG", file)
		out, stderr, code := output("", "version")
		if code != exitOK || out != versionLine()+"\n" || !strings.HasPrefix(stderr, "strait: the versions in a cluster are not shown: there is no current context; "+why) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("KUBECONFIG=%s: ends with %d and prints %q, %q", file, code, out, stderr)
		}
	}
	fail(t, "", mistake{"a context that does not exist", "version --context a", exitFailed, []string{`there is no context "a"; `, "KUBECONFIG"}})
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{"a": {Host: "https://127.0.0.1:1"}}))
	fail(t, "", mistake{"none of several", "version", exitFailed, []string{"there is no current context; choose one of: a"}})
}

func TestVersionOfTheClientSendsNoRequest(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/zero") // an error, if it were read
	if out, stderr, code := output("", "version", "--client"); code != exitOK || out != versionLine()+"\n" || stderr != "" {
		t.Errorf("ends with %d and prints %q, %q", code, out, stderr)
	}
}
