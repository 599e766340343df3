package fakekube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
)

// ServiceAccount returns the configuration of a client that acts as a service account. It
// has the permissions of the ClusterRoles and Roles in these YAML documents, and those of
// every account. A Role without a namespace applies to the namespace of the account. The
// account is created if it does not exist.
func (s *Server) ServiceAccount(t testing.TB, namespace, name string, documents ...[]byte) *rest.Config {
	t.Helper()
	var granted []grant
	for _, text := range documents {
		for from := yaml.NewYAMLToJSONDecoder(bytes.NewReader(text)); ; {
			var role rbacv1.ClusterRole // a Role has the same fields
			err := from.Decode(&role)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			within := ""
			if role.Kind == "Role" {
				if within = role.Namespace; within == "" {
					within = namespace
				}
			}
			for _, rule := range role.Rules {
				granted = append(granted, grant{within, rule})
			}
		}
	}
	user := authenticationv1.UserInfo{
		Username: "system:serviceaccount:" + namespace + ":" + name, UID: s.account(namespace, name),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	return s.config(func(q Request) error {
		if slices.ContainsFunc(granted, func(g grant) bool { return g.allows(q) }) || authenticatedMay(q) {
			return nil
		}
		return forbidden(q, user.Username)
	}, user)
}

// account returns the UID of a service account.
func (s *Server) account(namespace, name string) (uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.store.resource(Request{Resource: "serviceaccounts"})
	account, err := s.store.get(r, namespace, name)
	if err != nil {
		must(s.store.add(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
		account, _ = s.store.get(r, namespace, name)
		s.wake()
	}
	return string(account.GetUID())
}

// grant is a rule of a Role in a namespace, or of a ClusterRole.
type grant struct {
	namespace string
	rule      rbacv1.PolicyRule
}

func (g grant) allows(q Request) bool {
	in := func(list []string, what string) bool {
		return slices.Contains(list, what) || slices.Contains(list, "*")
	}
	if q.Resource == "" {
		return in(g.rule.Verbs, q.Verb) && in(g.rule.NonResourceURLs, q.Path)
	}
	resource := q.Resource
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	return (g.namespace == "" || g.namespace == q.Namespace) &&
		in(g.rule.Verbs, q.Verb) && in(g.rule.APIGroups, q.Group) && in(g.rule.Resources, resource) &&
		(len(g.rule.ResourceNames) == 0 || slices.Contains(g.rule.ResourceNames, q.Name))
}

// authenticatedMay reports whether every authenticated client may do this.
func authenticatedMay(q Request) bool {
	return q.Resource == "selfsubjectreviews" ||
		q.Resource == "" && slices.Contains([]string{"/healthz", "/livez", "/readyz", "/version", "/api", "/apis"}, strings.TrimSuffix(q.Path, "/"))
}

func forbidden(q Request, user string) error {
	where := "at the cluster scope"
	if q.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", q.Namespace)
	}
	resource := q.Resource
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	return apierrors.NewForbidden(gr(q), q.Name, fmt.Errorf("User %q cannot %s resource %q in API group %q %s", user, q.Verb, resource, q.Group, where))
}
