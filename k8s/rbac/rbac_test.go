//go:build apiserver

package rbac_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
)

var update = flag.Bool("update", false, "write the golden file anew")

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

// accounts are the service accounts as the installation has them, and the namespaces in
// which they have rights of their own. Everywhere else is like "elsewhere".
var accounts = []struct {
	namespace, name string
	rules           []byte
	in              []string
}{
	{"strait-system", "strait-controller", rbac.Controller, []string{"strait-system", "strait-gateways", "default", "elsewhere"}},
	{"strait-gateways", "strait-gateway", rbac.Gateway, []string{"strait-gateways", "elsewhere"}},
	{"strait-nodes", "strait-node", rbac.Node, []string{"strait-nodes", "elsewhere"}},
	{"strait-system", "strait-uninstall", rbac.Uninstall, []string{"strait-system", "strait-gateways", "elsewhere"}},
	{"strait-system", "strait-verify", rbac.Verify, []string{"strait-system", "elsewhere"}},
}

// The permissions of each program according to the API server, beyond those of every
// service account.
func TestT5_EachProgramHasTheseRightsAndNoOthers(t *testing.T) {
	c := kube.Start(t)
	noRights := rights(t, c, "nobody", "nobody", "elsewhere")
	var all strings.Builder
	for _, a := range accounts {
		if err := c.Namespace(t.Context(), a.namespace); err != nil {
			t.Fatal(err)
		}
		c.Grant(t, a.rules, a.namespace, a.name)
		awaitRules(t, c, a.name)
		everywhere := beyond(rights(t, c, a.namespace, a.name, "elsewhere"), noRights)
		for _, namespace := range a.in {
			if err := c.Namespace(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			has, where := beyond(rights(t, c, a.namespace, a.name, namespace), noRights), "everywhere"
			if namespace != "elsewhere" {
				has, where = beyond(has, everywhere), "in "+namespace
			}
			if len(has) == 0 {
				continue
			}
			fmt.Fprintf(&all, "%s may %s:\n", a.name, where)
			for _, right := range has {
				fmt.Fprintf(&all, "  %s\n", right)
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := []byte(all.String()); !bytes.Equal(got, want) {
		t.Errorf("the rights are not those of %s; after looking at each, run the test with -update. They are\n%s", golden, got)
	}
}

// awaitRules waits until all rules that were granted are in effect. The API server follows each
// resource type in the order of its changes, so the rules that are granted here are the last.
func awaitRules(t *testing.T, c *kube.Cluster, after string) {
	t.Helper()
	const account = "await-rules"
	name := account + "-" + after
	var rules strings.Builder
	for _, kind := range []string{"ClusterRole", "Role"} {
		fmt.Fprintf(&rules, "---\nkind: %s\nmetadata: {name: %s}\nrules:\n- {apiGroups: [\"\"], resources: [configmaps], resourceNames: [%s-%s], verbs: [get]}\n", kind, name, kind, name)
	}
	c.Grant(t, []byte(rules.String()), "elsewhere", account)
	kube.Until(t, "the rules of "+after+" are in effect", func() string {
		has := rights(t, c, "elsewhere", account, "elsewhere")
		for _, kind := range []string{"ClusterRole", "Role"} {
			if !slices.Contains(has, fmt.Sprintf("get /configmaps %s-%s", kind, name)) {
				return fmt.Sprintf("not yet those of its %s: %v", kind, has)
			}
		}
		return ""
	})
}

// rights are a line for each verb on each resource.
func rights(t *testing.T, c *kube.Cluster, namespace, account, in string) (all []string) {
	t.Helper()
	asAccount, err := kubernetes.NewForConfig(c.ServiceAccount(t, namespace, account))
	if err != nil {
		t.Fatal(err)
	}
	review, err := asAccount.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in},
	}, metav1.CreateOptions{})
	if err != nil || review.Status.Incomplete {
		t.Fatalf("the rights of %s: incomplete %v, %v", account, review.Status.Incomplete, err)
	}
	for _, rule := range review.Status.ResourceRules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{"(any)"}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, fmt.Sprintf("%s %s/%s %s", verb, group, resource, name))
					}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(byResource(a), byResource(b)) })
	return slices.Compact(all)
}

// byResource sorts rules by resource, then by RBAC verb.
func byResource(right string) string {
	verb, rest, _ := strings.Cut(right, " ")
	return rest + " " + verb
}

// beyond is what is in rights and not in others.
func beyond(rights, others []string) (more []string) {
	for _, right := range rights {
		if !slices.Contains(others, right) {
			more = append(more, right)
		}
	}
	return more
}
