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

// onlyMetadata asks for objects without what they hold.
const onlyMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// Metadata is the metadata of all objects of any kind that a selector selects, in all
// namespaces: without what they hold, as of Secrets. Of a kind that the API server does
// not know there are none.
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
