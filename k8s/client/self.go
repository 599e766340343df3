package client

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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

// MayRead reports whether a service account may list and watch all objects of a resource
// type. The client needs permission to create SubjectAccessReviews.
func (c *Client) MayRead(ctx context.Context, namespace, account, group, resource string) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		may, err := c.MayAccess(ctx, authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + account,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource},
		})
		if err != nil || !may {
			return false, err
		}
	}
	return true, nil
}

// MayAccess reports whether a user may do what spec describes. The client needs permission to
// create SubjectAccessReviews.
func (c *Client) MayAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: spec}
	err := c.groups[authorizationv1.SchemeGroupVersion].Post().Resource("subjectaccessreviews").
		VersionedParams(&metav1.CreateOptions{}, c.parameter).Body(review).Do(ctx).Into(review)
	return review.Status.Allowed, err
}

// TokenUser returns the user whose bearer token it is; ok is false if the token is not valid. The
// client needs permission to create TokenReviews.
func (c *Client) TokenUser(ctx context.Context, token string) (user authenticationv1.UserInfo, ok bool, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	err = c.groups[authenticationv1.SchemeGroupVersion].Post().Resource("tokenreviews").
		VersionedParams(&metav1.CreateOptions{}, c.parameter).Body(review).Do(ctx).Into(review)
	return review.Status.User, review.Status.Authenticated, err
}
