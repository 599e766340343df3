package fakekube

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is a client's request in the terms of RBAC.
type Request struct {
	Verb        string // get, list, watch, create, update, patch, delete or deletecollection
	Group       string // like apps; empty for the core group
	Version     string
	Resource    string // like peerings; empty if the path is not a resource
	Subresource string // like status
	Namespace   string // empty: all, or none
	Name        string // empty if the request concerns several objects
	Path        string

	query url.Values
	patch string // the content type of a patch
	agent string // the client's User-Agent
	body  []byte
	user  authenticationv1.UserInfo
	allow func(Request) error
}

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	http.MethodGet: "get", http.MethodHead: "get",
}

// parse parses a request like an API server.
func parse(r *http.Request, body []byte) Request {
	q := Request{Verb: verbs[r.Method], Path: r.URL.Path, query: r.URL.Query(), patch: r.Header.Get("Content-Type"), agent: r.UserAgent(), body: body}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		q.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		q.Group, q.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return q
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" {
		q.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	q.Resource, q.Name, q.Subresource = parts[0], parts[1], parts[2]
	if q.Name == "" {
		switch q.Verb {
		case "get":
			q.Verb = "list"
		case "delete":
			q.Verb = "deletecollection"
		}
		// A selection by name may be granted by name.
		if selector, err := fields.ParseSelector(q.query.Get("fieldSelector")); err == nil {
			if name, ok := selector.RequiresExactMatch("metadata.name"); ok && q.Verb != "create" {
				q.Name = name
			}
		}
	}
	if watch := q.query.Get("watch"); q.Verb == "list" && (watch == "true" || watch == "1") {
		q.Verb = "watch"
	}
	return q
}

// manager is the name under which the request's fields are managed.
func (q Request) manager() string {
	if name := q.query.Get("fieldManager"); name != "" {
		return name
	}
	name, _, _ := strings.Cut(q.agent, "/")
	return name
}

func gr(q Request) schema.GroupResource {
	return schema.GroupResource{Group: q.Group, Resource: q.Resource}
}

// isDryRun reports whether a request that writes is to be performed without being stored.
// Deletions say so in their body.
func isDryRun(q Request) bool {
	all := q.query["dryRun"]
	if q.Verb == "delete" || q.Verb == "deletecollection" {
		options, _ := decodeDeleteOptions(q.body) // an error is that of the deletion
		all = options.DryRun
	}
	return slices.Contains(all, metav1.DryRunAll)
}
