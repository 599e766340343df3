package client

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
