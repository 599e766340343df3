package kube

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// auditPolicy records who asks for what, of service accounts alone: what a test itself
// asks for as admin would be most of it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// Request is a kind of request that somebody makes.
type Request struct {
	User     string // like system:serviceaccount:NAMESPACE:NAME
	Verb     string // like watch
	Resource string // like pods, or peerings/status
}

// StartAudited is Start with a record of what service accounts ask for: see Requests.
func StartAudited(t testing.TB) *Cluster {
	t.Helper()
	return start(t, true)
}

// auditFlags are those of an API server that keeps the record.
func (c *Cluster) auditFlags() ([]string, error) {
	if !c.audited {
		return nil, nil
	}
	policy := c.file("audit.yaml")
	return []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + c.auditLog(),
		"--audit-log-maxsize=10000", // MB: never begun anew
	}, os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

func (c *Cluster) auditLog() string { return c.file("audit.log") }

// Requests counts what service accounts have asked for since the cluster was started by
// StartAudited. A watch counts once, from its beginning.
func (c *Cluster) Requests(t testing.TB) map[Request]int {
	t.Helper()
	log, err := os.Open(c.auditLog())
	must(t, err)
	defer log.Close()
	counts, begun := make(map[Request]int), make(map[string]bool)
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return counts // at its end, or in a line that is being written
		}
		var event struct {
			AuditID, Stage, Verb string
			User                 struct{ Username string }
			ObjectRef            struct{ Resource, Subresource string }
		}
		must(t, json.Unmarshal(line, &event))
		if begun[event.AuditID] {
			delete(begun, event.AuditID) // it ends
			continue
		}
		begun[event.AuditID] = event.Stage == "ResponseStarted"
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		counts[Request{event.User.Username, event.Verb, resource}]++
	}
}
