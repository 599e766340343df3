package kube

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// auditPolicy records the requests of service accounts only: most others would be those of
// the test itself as admin.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// Request is a type of request by a user.
type Request struct {
	User     string // like system:serviceaccount:NAMESPACE:NAME
	Verb     string // like watch
	Resource string // like pods, or peerings/status
}

// StartAudited is Start with a record of the requests of service accounts: see Requests.
func StartAudited(t testing.TB) *Cluster {
	t.Helper()
	return start(t, options{audited: true})
}

// StartAuditedWithNodes is StartWithNodes with such a record.
func StartAuditedWithNodes(t testing.TB) *Cluster {
	t.Helper()
	return start(t, options{audited: true, nodes: true})
}

// auditFlags returns the flags of an API server that keeps the record.
func (c *Cluster) auditFlags() ([]string, error) {
	if !c.audited {
		return nil, nil
	}
	policy := c.file("audit.yaml")
	return []string{
		"--audit-policy-file=" + policy, "--audit-log-path=" + c.auditLog(),
		"--audit-log-maxsize=10000", // MB: no rotation
	}, os.WriteFile(policy, []byte(auditPolicy), 0o600)
}

func (c *Cluster) auditLog() string { return c.file("audit.log") }

// Requests counts the requests of service accounts since the cluster was started by
// StartAudited. A watch counts once, when it starts.
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
			return counts // end of the file, or an incomplete line
		}
		var event struct {
			AuditID, Stage, Verb string
			User                 struct{ Username string }
			ObjectRef            struct{ Resource, Subresource string }
		}
		must(t, json.Unmarshal(line, &event))
		if begun[event.AuditID] {
			delete(begun, event.AuditID) // it has ended
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
