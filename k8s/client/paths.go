package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// ApplyYAML applies an object of any type, given as YAML, at its path, like
// /api/v1/namespaces/a (server-side apply). It takes over fields of other managers.
func (c *Client) ApplyYAML(ctx context.Context, path string, object []byte, manager string) error {
	options := metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: c.dryRun}.ToPatchOptions()
	return c.groups[corev1.SchemeGroupVersion].Patch(types.ApplyYAMLPatchType).AbsPath(path).VersionedParams(&options, c.parameter).
		Body(object).Do(ctx).Error()
}

// DeletePath deletes the object of any type at a path, like /api/v1/namespaces/a. What it owns is
// deleted after it.
func (c *Client) DeletePath(ctx context.Context, path string) error {
	background := metav1.DeletePropagationBackground
	return c.groups[corev1.SchemeGroupVersion].Delete().AbsPath(path).Body(&metav1.DeleteOptions{PropagationPolicy: &background, DryRun: c.dryRun}).Do(ctx).Error()
}

// onlyMetadata is the Accept header for objects without spec, data and status.
const onlyMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// Metadata returns the metadata of all objects of any resource type that a selector
// selects, in all namespaces, without their contents, as of Secrets. For a type that the
// API server does not serve it returns none.
func (c *Client) Metadata(ctx context.Context, of schema.GroupVersionResource, selector string) ([]metav1.ObjectMeta, error) {
	path := "/apis/" + of.Group + "/" + of.Version + "/" + of.Resource
	if of.Group == "" {
		path = "/api/" + of.Version + "/" + of.Resource
	}
	text, err := c.groups[corev1.SchemeGroupVersion].Get().AbsPath(path).Param("labelSelector", selector).
		SetHeader("Accept", onlyMetadata).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", of.Resource, err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("list %s: %w", of.Resource, err)
	}
	all := make([]metav1.ObjectMeta, len(list.Items))
	for i := range list.Items {
		all[i] = list.Items[i].ObjectMeta
	}
	return all, nil
}

// Version returns the version of the API server, and its time from the Date header: zero if
// there is none.
func (c *Client) Version(ctx context.Context) (is version.Info, clock time.Time, err error) {
	core := c.groups[corev1.SchemeGroupVersion]
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, core.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return is, clock, err
	}
	answer, err := core.Client.Do(request)
	if err != nil {
		return is, clock, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the API server answered %s to /version", answer.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	clock, _ = http.ParseTime(answer.Header.Get("Date")) // zero if there is none
	return is, clock, err
}

// Raw reads a path of the API server, like /version, as JSON if available.
func (c *Client) Raw(ctx context.Context, path string) ([]byte, error) {
	return c.groups[v1alpha1.GroupVersion].Get().AbsPath(path).Do(ctx).Raw()
}
