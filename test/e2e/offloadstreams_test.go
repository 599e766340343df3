//go:build e2e || nightly

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/nodes"
)

// talker is a pod of a that runs in b, prints a line each second, serves, and starts again when it
// is told to.
const talker = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: talker}
spec:
  runtimeClassName: strait-PEERING
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: talker
    image: strait.test/busybox:1
    command:
    - sh
    - -c
    - |
      rm -f /tmp/end
      echo run >>/tmp/index.html
      echo run $(wc -l </tmp/index.html) starts
      httpd -p 8080 -h /tmp
      while [ ! -e /tmp/end ]; do echo tick; sleep 1; done
    volumeMounts: [{name: tmp, mountPath: /tmp}]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  volumes: [{name: tmp, emptyDir: {}}]
`

// talks uses a pod of a in b as its users do: logs, commands, its output and a forwarded port. Then it
// calls the kubelet port as a pod of a could.
func (w *world) talks(t *testing.T) {
	t.Helper()
	kubectl := func(input string, args ...string) string {
		t.Helper()
		return w.do(t, input, "kubectl", append([]string{"--context=a", "--namespace=shop"}, args...)...)
	}
	kubectl(strings.ReplaceAll(talker, "PEERING", peering["a"]), "apply", "--filename=-")
	kubectl("", "wait", "pod/talker", "--for=condition=Ready", "--timeout=10m")
	if log := kubectl("", "logs", "talker", "--limit-bytes=13"); log != "run 1 starts\n" {
		t.Errorf("the log begins with %q", log)
	}
	if log := kubectl("", "logs", "talker", "--tail=1"); log != "tick\n" {
		t.Errorf("the log ends with %q", log)
	}
	if out := kubectl("some input", "exec", "--stdin", "talker", "--", "sh", "-c", "id -u; cat"); out != "65534\nsome input" {
		t.Errorf("a command prints %q", out)
	}
	if _, err := w.try(t, "", "kubectl", "--context=a", "--namespace=shop", "exec", "talker", "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit code 7") {
		t.Errorf("a command that fails with 7: %v", err)
	}
	at := w.forward(t, "shop", "talker", "8080")
	if out, err := w.try(t, "", "kubectl", "--server=http://"+at, "get", "--raw=/index.html"); err != nil || out != "run\n" {
		t.Errorf("through the forwarded port: %q, %v", out, err)
	}

	attached, _ := w.ticks(t, "attach", "talker")
	_ = attached.Process.Kill() // it would end with the container
	_ = attached.Wait()
	follow, lines := w.ticks(t, "logs", "--follow", "--tail=1", "talker")
	kubectl("", "exec", "talker", "--", "touch", "/tmp/end")
	for lines.Scan() {
	}
	if err := follow.Wait(); err != nil {
		t.Errorf("when the container has ended: %v", err)
	}
	eventually(t, "the container runs again, and its former log is there", func() error {
		out, err := w.try(t, "", "kubectl", "--context=a", "--namespace=shop", "logs", "--previous", "--limit-bytes=13", "talker")
		if err == nil && out != "run 1 starts\n" {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
	w.intrudes(t)
	kubectl("", "delete", "pod", "talker", "--timeout=10m")
}

// ticks starts a kubectl command that prints what the talker prints, and returns it after some lines.
func (w *world) ticks(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := w.command(t, "kubectl", append([]string{"--context=a", "--namespace=shop"}, args...)...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for range 3 {
		if !lines.Scan() || lines.Text() != "tick" {
			t.Fatalf("kubectl %s prints %q, %v", args, lines.Text(), lines.Err())
		}
	}
	return cmd, lines
}

// forward forwards a port of a pod of a until the test ends, and returns the local address.
func (w *world) forward(t *testing.T, namespace, pod, port string) string {
	t.Helper()
	cmd := w.command(t, "kubectl", "--context=a", "--namespace="+namespace, "port-forward", "pod/"+pod, ":"+port)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if it has ended
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "Forwarding from "); ok && strings.HasPrefix(at, "127.") {
			at, _, _ = strings.Cut(at, " ")
			return at
		}
	}
	t.Fatalf("port %s of pod %s/%s is not forwarded: %v", port, namespace, pod, lines.Err())
	return ""
}

// intruder is a pod of a with kubectl and the token of its account.
const intruder = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: intruder}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: intruder
    image: strait.test/kubectl:1
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// intrudes calls the kubelet port of the virtual node: from a pod, without credentials, with an
// invalid token and with its own; and with the certificates of both administrators.
func (w *world) intrudes(t *testing.T) {
	t.Helper()
	kubectl := func(input string, args ...string) string {
		t.Helper()
		return w.do(t, input, "kubectl", append([]string{"--context=a"}, args...)...)
	}
	archive := filepath.Join(w.Dir(), "kubectl.tar")
	must(t, nodes.WriteImage(archive, nodes.Image{
		Names: []string{"strait.test/kubectl:1"}, Entrypoint: []string{"/bin/sleep", "infinity"},
		Programs: map[string]string{"/bin/kubectl": kube.Program(t, "kubectl")},
	}))
	w.clusters[0].LoadImage(t, archive)
	kubectl(intruder, "apply", "--filename=-")
	kubectl("", "--namespace=shop", "wait", "pod/intruder", "--for=condition=Ready", "--timeout=10m")
	addresses := strings.Fields(kubectl("", "get", "node", "strait-"+peering["a"], `--output=jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`))
	at := net.JoinHostPort(addresses[0], "10250")
	inPod := func(path, token string) string {
		out, err := w.try(t, "", "kubectl", "--context=a", "--namespace=shop", "exec", "intruder", "--", "sh", "-c",
			fmt.Sprintf("kubectl --server=https://%s --insecure-skip-tls-verify %s get --raw='%s' 2>&1", at, token, path))
		return fmt.Sprint(out, err)
	}
	for _, path := range []string{"/healthz", "/containerLogs/shop/talker/talker", "/exec/shop/talker/talker?command=id&output=1", "/portForward/shop/talker"} {
		for _, c := range []struct{ who, token, says string }{
			{"a pod", "", "Please enter Username"}, // kubectl after a 401 without credentials
			{"a pod with an invalid token", "--token=invalid", "asked for the client to provide credentials"},
			{"a pod with the token of its account", `--token="$(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"`, "Forbidden: system:serviceaccount:shop:default may not"},
		} {
			if out := inPod(path, c.token); !strings.Contains(out, c.says) {
				t.Errorf("%s asks for %s: %s", c.who, path, out)
			}
		}
	}
	kubectl("", "--namespace=shop", "delete", "pod", "intruder", "--timeout=10m")

	borrower := kubectl("", "--namespace=strait-offload", "get", "pods", "--output=jsonpath={.items[0].metadata.name}")
	at = w.forward(t, "strait-offload", borrower, "10250")
	for context, says := range map[string]string{"a": "ok", "b": "asked for the client to provide credentials"} {
		out, err := w.try(t, "", "kubectl", "--context="+context, "--server=https://"+at, "--insecure-skip-tls-verify", "get", "--raw=/healthz")
		if !strings.Contains(fmt.Sprint(out, err), says) {
			t.Errorf("the health, with the certificate of the administrator of %s: %s, %v", context, out, err)
		}
	}
}
