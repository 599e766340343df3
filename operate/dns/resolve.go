package dns

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/services"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
)

// namesChecked is the maximum number of imported Services whose names are resolved.
const namesChecked = 100

// lookupTimeout is the timeout of one lookup: longer than that of a query that is repeated.
const lookupTimeout = 12 * time.Second

// resolver is the name of the pod that resolves names.
const resolver = "resolver"

// pollInterval is the interval between two attempts.
const pollInterval = 2 * time.Second

// Answer is the result of the lookup of a name.
type Answer struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses,omitempty"` // sorted
	NotFound  bool     `json:"notFound,omitempty"`  // the DNS server says that the name does not exist
	Error     string   `json:"error,omitempty"`
}

// Lookup resolves names with the DNS server of this pod. services.VersionName is resolved as
// a TXT record, without addresses.
func Lookup(ctx context.Context, names []string) []Answer {
	with := &net.Resolver{PreferGo: true}
	all := make([]Answer, 0, len(names))
	for _, name := range names {
		all = append(all, lookup(ctx, with, name))
	}
	return all
}

func lookup(ctx context.Context, with *net.Resolver, name string) Answer {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	is, absolute := Answer{Name: name}, strings.TrimSuffix(name, ".")+"."
	var err error
	if name == services.VersionName {
		_, err = with.LookupTXT(ctx, absolute)
	} else {
		is.Addresses, err = with.LookupHost(ctx, absolute)
	}
	slices.Sort(is.Addresses)
	if err != nil {
		var failed *net.DNSError
		is.NotFound = errors.As(err, &failed) && failed.IsNotFound
		is.Error = err.Error()
	}
	return is
}

// Resolve returns findings about names, as a pod of an image resolves them: the given ones,
// or those of imported Services. It tries again for the given time until all are good. The
// error lists pods that were not removed.
func Resolve(ctx context.Context, c operator.Cluster, image string, names []string, wait time.Duration, say func(string)) (all []findings.Finding, err error) {
	const code = "STRAIT-D003"
	want := make(map[string][]string, len(names)) // addresses, if known
	if len(names) == 0 {
		if want, err = importedNames(ctx, c); err != nil {
			return []findings.Finding{findings.New(code, findings.Error, c.Name, "%v", err)}, nil
		}
	}
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	group, err := agents.Start(ctx, agents.Options{Client: c.Client, Image: image, Purpose: "dns", Say: say}, agents.Agent{Name: resolver})
	if err != nil {
		return []findings.Finding{findings.New("STRAIT-C012", findings.Error, c.Name, "a pod of image %s does not run, so no name was resolved: %v", image, err)}, nil
	}
	defer func() {
		say("removing the pod in " + c.Name)
		err = errors.Join(err, group.End(context.WithoutCancel(ctx)))
	}()
	say("resolving names in a pod of " + c.Name)
	for end := time.Now().Add(wait); ; {
		all, err = ask(ctx, c, group, names, want)
		if err != nil || findings.Worst(all) != findings.Error || !time.Now().Before(end) {
			return all, err
		}
		select {
		case <-ctx.Done():
			return all, ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// ask lets a pod resolve names once.
func ask(ctx context.Context, c operator.Cluster, group *agents.Group, names []string, want map[string][]string) ([]findings.Finding, error) {
	var out bytes.Buffer
	if err := group.Exec(ctx, resolver, nil, &out, append([]string{"agent", "lookup", services.VersionName}, names...)...); err != nil {
		return nil, c.Failed("resolve names in a pod", err)
	}
	var answers []Answer
	if err := json.Unmarshal(out.Bytes(), &answers); err != nil {
		return nil, fmt.Errorf("read the answers of the pod: %w", err)
	}
	return answerFindings(c.Name, answers, want), nil
}

// importedNames returns the names of the imported Services with a cluster IP, and these IPs.
func importedNames(ctx context.Context, c operator.Cluster) (map[string][]string, error) {
	list, err := c.Client.ServiceImports("").List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errors.New("the cluster has no ServiceImports; install Strait first")
	}
	if err != nil {
		return nil, c.Failed("list ServiceImports", err)
	}
	names := make(map[string][]string)
	for _, i := range list.Items {
		if i.Spec.Type != mcsv1beta1.ClusterSetIP || len(i.Spec.IPs) == 0 || len(names) == namesChecked {
			continue
		}
		ips := slices.Clone(i.Spec.IPs)
		slices.Sort(ips)
		names[i.Name+"."+i.Namespace+".svc."+Zone] = ips
	}
	return names, nil
}

// answerFindings returns the findings about answers, with the addresses that some names must
// have.
func answerFindings(cluster string, answers []Answer, want map[string][]string) (all []findings.Finding) {
	const code = "STRAIT-D003"
	for _, a := range answers {
		subject := cluster + ", " + a.Name
		addresses, known := want[a.Name]
		switch {
		case a.Error != "" && a.Name == services.VersionName:
			return []findings.Finding{findings.New(code, findings.Error, cluster, "the DNS server of pods does not serve %s: %s", Zone, a.Error)}
		case a.NotFound:
			all = append(all, findings.New(code, findings.Error, subject, "the name does not exist; strait services shows what is imported"))
		case a.Error != "":
			all = append(all, findings.New(code, findings.Error, subject, "%s", a.Error))
		case known && !slices.Equal(a.Addresses, addresses):
			all = append(all, findings.New(code, findings.Error, subject, "resolves to %s, but its ServiceImport has %s", strings.Join(a.Addresses, ", "), strings.Join(addresses, ", ")))
		case a.Name == services.VersionName:
			all = append(all, findings.New(code, findings.OK, cluster, "the DNS server of pods serves %s", Zone))
		default:
			all = append(all, findings.New(code, findings.OK, subject, "resolves to %s", strings.Join(a.Addresses, ", ")))
		}
	}
	return all
}
