package client

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Self returns the identity of this client at the API server. For a service account it
// includes the UID, which distinguishes it from another account of the same name.
func (c *Client) Self(ctx context.Context) (authenticationv1.UserInfo, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := c.groups[authenticationv1.SchemeGroupVersion].Post().Resource("selfsubjectreviews").
		VersionedParams(&metav1.CreateOptions{}, c.parameter).Body(review).Do(ctx).Into(review)
	return review.Status.UserInfo, err
}
