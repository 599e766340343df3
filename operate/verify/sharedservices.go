package verify

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/k8s/api/v1alpha1"
)

const (
	importTimeout = 20 * time.Second // as in the conformance suite of the Multi-Cluster Services API
	importPause   = 100 * time.Millisecond
)

// shareServices exports each pod of both clusters as a Service. It returns the Services that
// each cluster has imported from the other one, by agent, and whether it has imported all.
// They are deleted with the agents' namespaces, whose names are the same in both clusters.
func shareServices(ctx context.Context, sites [2]*site) (services [2]map[string]map[family]service, checks []Check) {
	checks = make([]Check, len(sites))
	_ = both(func(i int) error {
		services[i], checks[i] = sites[i].importServices(ctx, sites[1-i], i)
		return nil
	})
	return services, checks
}

// importServices exports the pods of another cluster, and waits until this one has imported
// them. n makes the names of the Services unique.
func (s *site) importServices(ctx context.Context, other *site, n int) (map[string]map[family]service, Check) {
	is := Check{Group: OfPeering, From: s.id, What: "Services of " + other.id + " are imported", Outcome: Skipped}
	all := make(map[string]map[family]service)
	for _, p := range other.locations {
		if !p.host && p.agent != "" {
			all[p.agent] = make(map[family]service)
		}
	}
	// none gives the reason to all Services.
	none := func(why string) map[string]map[family]service {
		for _, of := range all {
			for _, f := range families {
				of[f] = service{why: why}
			}
		}
		return all
	}
	if from := s.Peering.Spec.Services.ImportFrom; from != "" && from != v1alpha1.ImportExisting {
		is.Detail = fmt.Sprintf("spec.services.importFrom of Peering %s is %s", s.Peering.Name, from)
		return none("no Service is imported: " + is.Detail), is
	}
	began := time.Now()
	names := make(map[string]string, len(all))
	for agent := range all {
		names[agent] = fmt.Sprintf("%s-%d", agent, n)
		err := other.export(ctx, names[agent], agent)
		switch {
		case apierrors.IsNotFound(err):
			is.Detail = fmt.Sprintf("cluster %s exports no Services: its API server has no ServiceExports", other.id)
			return none(is.Detail), is
		case err != nil:
			is.Outcome, is.Detail = Failed, fmt.Sprintf("cluster %s: cannot export a Service: %v", other.id, err)
			return none("no Service is exported"), is
		}
	}
	is.Outcome = Passed
	for agent, name := range names {
		addresses, err := s.imported(ctx, name, began.Add(importTimeout))
		for _, f := range families {
			switch address, ok := addresses[f]; {
			case err != nil:
				all[agent][f] = service{why: fmt.Sprintf("a Service of cluster %s is not imported", other.id)}
			case !ok:
				all[agent][f] = service{why: fmt.Sprintf("Services of cluster %s have no %s address", s.id, f)}
			default:
				all[agent][f] = service{address: address}
			}
		}
		if err != nil {
			is.Outcome, is.Detail = Failed, err.Error()
			is.Cause, is.Remedy = "the exports of the remote cluster are not received, or are refused", "run strait services -o wide in both clusters"
		}
	}
	if is.Outcome == Passed {
		is.Detail = fmt.Sprintf("%d after %v", len(names), time.Since(began).Round(100*time.Millisecond))
	}
	return all, is
}

// export creates a Service for an agent in this cluster, and exports it.
func (s *site) export(ctx context.Context, name, agent string) error {
	var ports []corev1.ServicePort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		ports = append(ports, corev1.ServicePort{Name: strings.ToLower(string(protocol)), Protocol: protocol, Port: endpoint.Port})
	}
	made, err := s.pods.Service(ctx, name, agent, corev1.ServiceTypeClusterIP, ports...)
	if err != nil {
		return err
	}
	_, err = s.Client.ServiceExports(made.Namespace).Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// imported returns the addresses of an imported Service, once it has a ready endpoint for
// each. The error after the deadline says what is missing.
func (s *site) imported(ctx context.Context, name string, deadline time.Time) (map[family]netip.Addr, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for {
		addresses, err := s.importedNow(ctx, name)
		if err == nil {
			return addresses, nil
		}
		if rest(ctx, importPause) != nil {
			return nil, fmt.Errorf("not within %v: %w", importTimeout, err)
		}
	}
}

func (s *site) importedNow(ctx context.Context, name string) (map[family]netip.Addr, error) {
	is, err := s.Client.ServiceImports(s.namespace()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	list, err := s.Client.EndpointSlices(is.Namespace).List(ctx, metav1.ListOptions{LabelSelector: mcsv1beta1.LabelServiceName + "=" + name + "," + mcsv1beta1.LabelSourceCluster})
	if err != nil {
		return nil, err
	}
	ready := make(map[family]bool)
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready[family(slice.AddressType)] = true
			}
		}
	}
	all := make(map[family]netip.Addr)
	for _, text := range is.Spec.IPs {
		a, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if !ready[familyOf(a)] {
			return nil, fmt.Errorf("ServiceImport %s has no ready endpoint for %v", name, a)
		}
		all[familyOf(a)] = a
	}
	if len(all) == 0 {
		return nil, errors.New("ServiceImport " + name + " has no IP address")
	}
	return all, nil
}

// namespace returns the namespace of the agents without host network.
func (s *site) namespace() string {
	for _, p := range s.locations {
		if !p.host && p.agent != "" {
			return s.pods.Pod(p.agent).Namespace
		}
	}
	return ""
}
