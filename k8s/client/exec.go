package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // its successor would be one more direct dependency
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

// ExecOptions describe a command and its container. A nil stream is not connected.
type ExecOptions struct {
	Namespace, Pod, Container string // empty: the pod's default container
	Command                   []string
	Stdin                     io.Reader
	Stdout, Stderr            io.Writer
}

// ExitError is the failure of a command that ran.
type ExitError struct {
	Code int
	err  error
}

func (e *ExitError) Error() string { return e.err.Error() }
func (e *ExitError) Unwrap() error { return e.err }

// Exec runs a command in a container until it exits, or ctx ends. An *ExitError means that
// the command failed; other errors mean that it could not run. Like kubectl, it uses
// WebSocket, with a fallback to SPDY if the API server or a proxy does not support it.
func (c *Client) Exec(ctx context.Context, o ExecOptions) error {
	request := func(method string) *rest.Request {
		return c.groups[corev1.SchemeGroupVersion].Verb(method).Namespace(o.Namespace).Resource("pods").Name(o.Pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: o.Container, Command: o.Command,
				Stdin: o.Stdin != nil, Stdout: o.Stdout != nil, Stderr: o.Stderr != nil,
			}, c.parameter)
	}
	first, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, request(http.MethodGet).URL().String())
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	second, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, request(http.MethodPost).URL())
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	executor, err := remotecommand.NewFallbackExecutor(first, second, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr})
	var exit utilexec.CodeExitError
	if errors.As(err, &exit) {
		return &ExitError{Code: exit.Code, err: err}
	}
	return err
}

// Logs returns the log of a container. The caller closes it.
func (c *Client) Logs(ctx context.Context, namespace, pod, container string, options corev1.PodLogOptions) (io.ReadCloser, error) {
	options.Container = container
	return c.groups[corev1.SchemeGroupVersion].Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(&options, c.parameter).Stream(ctx)
}

// Streams returns the transport of connections that carry streams of pods, with the credentials of
// the client: over HTTP/1.1, which can upgrade a connection.
func (c *Client) Streams() (http.RoundTripper, error) {
	config := rest.CopyConfig(c.config)
	config.NextProtos, config.DisableCompression = []string{"http/1.1"}, true
	return rest.TransportFor(config)
}

// PodURL returns the URL of a subresource of a pod.
func (c *Client) PodURL(namespace, pod, subresource string) *url.URL {
	return c.groups[corev1.SchemeGroupVersion].Get().Namespace(namespace).Resource("pods").Name(pod).SubResource(subresource).URL()
}

// Evict deletes a pod as a drain of its node does. While a PodDisruptionBudget forbids it,
// the error is TooManyRequests.
func (c *Client) Evict(ctx context.Context, namespace, pod string) error {
	return c.groups[policyv1.SchemeGroupVersion].Post().AbsPath("/api/v1").Namespace(namespace).Resource("pods").Name(pod).SubResource("eviction").
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace}}).Do(ctx).Error()
}
