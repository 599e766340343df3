package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/peering"
)

// far captures in a gateway's pod, where it runs `strait capture --socket`.
func (f *captureFlags) far(ctx context.Context, cmd *cobra.Command, name string) error {
	cluster, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	list, err := cluster.Client.Pods(f.namespace).List(ctx, metav1.ListOptions{LabelSelector: peering.Label})
	if err != nil {
		return cluster.Failed("list the gateways in namespace "+f.namespace, err)
	}
	pod, err := chooseGateway(list.Items, name, f.namespace)
	if err != nil {
		return err
	}
	return f.farIn(ctx, cmd, pod, cluster.Client.Exec)
}

// chooseGateway returns the gateway of that name, or the only gateway of the Peering of that
// name, or without a name the only gateway.
func chooseGateway(pods []corev1.Pod, name, namespace string) (*corev1.Pod, error) {
	one := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	if one >= 0 {
		pods = pods[one : one+1]
	}
	var found, running []*corev1.Pod
	var names []string
	for i := range pods {
		p := &pods[i]
		if one < 0 && name != "" && p.Labels[peering.Label] != name {
			continue
		}
		if found = append(found, p); p.Status.Phase == corev1.PodRunning {
			running, names = append(running, p), append(names, p.Name)
		}
	}
	whose := "of Peering " + name
	switch {
	case one >= 0:
		whose = name
	case name == "":
		whose = "in namespace " + namespace
	}
	slices.Sort(names)
	switch {
	case len(running) == 1:
		return running[0], nil
	case len(running) > 1:
		return nil, fmt.Errorf("%d gateways %s run: name one of %s", len(running), whose, strings.Join(names, ", "))
	case len(found) > 0:
		return nil, fmt.Errorf("no gateway %s runs: %s is %s; run kubectl describe pod --namespace %s %[2]s", whose, found[0].Name, found[0].Status.Phase, namespace)
	case name != "":
		return nil, fmt.Errorf("there is no gateway %s and no Peering %[1]s with gateways in namespace %s: run strait status for the Peerings, or name the namespace with --gateway-namespace", name, namespace)
	}
	return nil, fmt.Errorf("no gateway runs in namespace %s: run strait status for the reason, or name the namespace with --gateway-namespace", namespace)
}

// farIn captures in a pod. The standard input of the program there stays open until the
// capture ends, so that the program also ends if this process dies.
func (f *captureFlags) farIn(ctx context.Context, cmd *cobra.Command, pod *corev1.Pod, execute func(context.Context, client.ExecOptions) error) error {
	until, end := io.Pipe()
	defer end.Close()
	context.AfterFunc(ctx, func() { end.Close() })
	packets, stdout := io.Pipe()
	var stderr bytes.Buffer // read when the program has ended
	ended := make(chan error, 1)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go func() {
		err := execute(running, client.ExecOptions{
			Namespace: pod.Namespace, Pod: pod.Name, Container: install.Gateway, Command: f.farCommand(),
			Stdin: until, Stdout: stdout, Stderr: &stderr,
		})
		stdout.Close()
		ended <- err
	}()
	err := f.write(cmd, packets)
	if err != nil { // a local error, or the effect of one in the pod
		stop()
	}
	packets.Close()
	if there := farError(pod, <-ended, stderr.String()); there != nil && (err == nil || !errors.Is(there, context.Canceled)) {
		return there
	}
	return err
}

func (f *captureFlags) farCommand() []string {
	return []string{
		install.Binary, "capture", "--socket", install.Socket, "--until-eof", "--file", "-",
		"--stage", strings.Join(f.request.Stages, ","),
		"--packets", strconv.Itoa(f.request.Packets), "--snap", strconv.Itoa(f.request.Snap),
		"--", f.request.Filter,
	}
}

func farError(pod *corev1.Pod, err error, stderr string) error {
	where := pod.Namespace + "/" + pod.Name
	var exit *client.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return fmt.Errorf("pod %s: %s", where, strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(stderr), errorPrefix), "\n"+errorPrefix, "\n"))
	case apierrors.IsForbidden(err):
		return fmt.Errorf("pod %s: %w; use a context that may create pods/exec", where, err)
	}
	return fmt.Errorf("pod %s: %w", where, err)
}
