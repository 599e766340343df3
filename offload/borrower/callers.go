package borrower

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/client"
)

// The ConfigMap in which an API server publishes the authority that signs its clients' certificates.
const (
	authoritySpace = "kube-system"
	authorityName  = "extension-apiserver-authentication"
	authorityKey   = "client-ca-file"
)

// Requests per second about the holders of tokens: any pod can send one.
const (
	tokenRate  = 10
	tokenBurst = 20
)

// callers authenticates and authorizes the clients of the kubelet port, as kubelets do: by a
// certificate of the authority of the cluster's clients or a bearer token, and then by their rights
// on the node. The API server decides on each request; nothing is remembered.
type callers struct {
	node        string
	authorities *client.Cache[*corev1.ConfigMap]
	certified   *client.Client // about holders of certificates
	tokens      *client.Client // about holders of tokens: apart, with a limited rate
}

// newCallers returns the callers of a node. A node may make reviews; own reads the authority.
func newCallers(own *client.Client, asNode *rest.Config, node string) (c *callers, err error) {
	c = &callers{node: node, authorities: own.ConfigMaps(authoritySpace).Cache(authorityName)}
	if c.certified, err = client.New(asNode); err != nil {
		return nil, err
	}
	limited := rest.CopyConfig(asNode)
	limited.QPS, limited.Burst = tokenRate, tokenBurst
	c.tokens, err = client.New(limited)
	return c, err
}

type refusal struct {
	code int
	text string
}

// unknown is the refusal of every client that is not authenticated.
var unknown = &refusal{http.StatusUnauthorized, "Unauthorized"}

// admit returns the name of the user who sends a request, and who may do it ("get" or "create") to
// nodes/proxy of the node; or a refusal.
func (c *callers) admit(ctx context.Context, r *http.Request, what string) (string, *refusal) {
	user, by, refused := c.authenticate(ctx, r)
	if refused != nil {
		return "", refused
	}
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(user.Extra)),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: what, Version: "v1", Resource: "nodes", Subresource: "proxy", Name: c.node},
	}
	for key, value := range user.Extra {
		spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	switch may, err := by.MayAccess(ctx, spec); {
	case err != nil:
		return "", &refusal{http.StatusServiceUnavailable, "the API server does not answer whether the client is authorized"}
	case !may:
		return "", &refusal{http.StatusForbidden, "Forbidden: " + user.Username + " may not " + what + " nodes/proxy of node " + c.node}
	}
	return user.Username, nil
}

// authenticate returns the user who sends a request, and the client for requests about that user.
func (c *callers) authenticate(ctx context.Context, r *http.Request) (user authenticationv1.UserInfo, by *client.Client, refused *refusal) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if !c.authorities.HasSynced() {
			return user, nil, &refusal{http.StatusServiceUnavailable, "the borrower has not read the authority of the cluster's clients; if this does not pass, run strait borrow again"}
		}
		if user, ok := c.certificate(r.TLS.PeerCertificates); ok {
			return user, c.certified, nil
		}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return user, nil, unknown
	}
	user, ok, err := c.tokens.TokenUser(ctx, token)
	switch {
	case err != nil:
		return user, nil, &refusal{http.StatusServiceUnavailable, "the API server does not answer whose token it is"}
	case !ok || user.Username == "":
		return user, nil, unknown
	}
	return user, c.tokens, nil
}

// certificate returns the user of a chain of certificates, if the authority has signed it for a client.
func (c *callers) certificate(chain []*x509.Certificate) (user authenticationv1.UserInfo, ok bool) {
	is, ok := c.authorities.Get(authoritySpace + "/" + authorityName)
	if !ok {
		return user, false
	}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if !options.Roots.AppendCertsFromPEM([]byte(is.Data[authorityKey])) {
		return user, false
	}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	subject := chain[0].Subject
	if _, err := chain[0].Verify(options); err != nil || subject.CommonName == "" {
		return user, false
	}
	return authenticationv1.UserInfo{Username: subject.CommonName, Groups: slices.Concat(subject.Organization, []string{"system:authenticated"})}, true
}
