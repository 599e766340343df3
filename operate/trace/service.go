package trace

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/gateway"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/operate/operator"
)

// ServiceSchema is the version of the JSON form of a ServiceReport. Fields may be added;
// changes and removals get a new number.
const ServiceSchema = "strait.dev/trace-service/1"

// domain ends the names of imported Services in DNS.
const domain = ".svc." + services.Zone

// ServiceName is the name of an imported Service in DNS.
type ServiceName struct {
	Namespace, Name   string
	Hostname, Cluster string // of one endpoint of a headless Service; empty: all endpoints
}

// ParseServiceName parses NAME.NAMESPACE.svc.clusterset.local and
// HOSTNAME.CLUSTER.NAME.NAMESPACE.svc.clusterset.local. It is false for any other text.
func ParseServiceName(text string) (n ServiceName, ok bool) {
	text, ok = strings.CutSuffix(strings.TrimSuffix(text, "."), domain)
	parts := strings.Split(text, ".")
	if !ok || slices.Contains(parts, "") {
		return n, false
	}
	switch len(parts) {
	case 2:
		return ServiceName{Name: parts[0], Namespace: parts[1]}, true
	case 4:
		return ServiceName{Hostname: parts[0], Cluster: parts[1], Name: parts[2], Namespace: parts[3]}, true
	}
	return n, false
}

func (n ServiceName) String() string {
	text := n.Name + "." + n.Namespace + domain
	if n.Hostname != "" {
		text = n.Hostname + "." + n.Cluster + "." + text
	}
	return text
}

// Service is an imported Service with its endpoints.
type Service struct {
	Name   ServiceName
	Import mcsv1beta1.ServiceImport
	Slices []discoveryv1.EndpointSlice
}

// ReadService reads an imported Service of a cluster.
func ReadService(ctx context.Context, c operator.Cluster, name ServiceName) (*Service, error) {
	found, err := c.Client.ServiceImports(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: there is no ServiceImport %s/%s; strait services says why", c.Name, name.Namespace, name.Name)
	}
	if err != nil {
		return nil, c.Failed(fmt.Sprintf("read ServiceImport %s/%s", name.Namespace, name.Name), err)
	}
	list, err := c.Client.EndpointSlices(name.Namespace).List(ctx, metav1.ListOptions{LabelSelector: mcsv1beta1.LabelServiceName + "=" + name.Name})
	if err != nil {
		return nil, c.Failed("read EndpointSlices", err)
	}
	return &Service{Name: name, Import: *found, Slices: list.Items}, nil
}

// ServiceReport is the result of traces to one endpoint in each cluster that exports a
// Service.
type ServiceReport struct {
	Schema  string          `json:"schema"`
	Service string          `json:"service"`       // the name in DNS
	IPs     []string        `json:"ips,omitempty"` // in this cluster
	Traces  []EndpointTrace `json:"traces"`        // by ID of the cluster
	Verdict Verdict         `json:"verdict"`       // the worst one
}

// EndpointTrace is the trace to an endpoint.
type EndpointTrace struct {
	Cluster string         `json:"cluster"` // ID of the exporting one
	Address netip.AddrPort `json:"address"` // in this cluster
	Ready   bool           `json:"ready"`
	Gateway string         `json:"gateway,omitempty"` // that carries the connections, in a cluster without node helpers
	Trace   *Report        `json:"trace,omitempty"`   // left out for an endpoint in this cluster, and for a gateway
}

// RunService traces packets to an endpoint of each cluster that exports a Service: one that
// is ready, if there is one. q.To is ignored, and an empty q.Protocol is that of the port.
// Endpoints of the local cluster are not traced, because packets to them do not pass Strait,
// and neither are gateways that carry connections, because they accept these themselves.
// remote is nil if there is no access to a remote cluster.
func RunService(ctx context.Context, s *Service, q Question, local, remote *Side, now time.Time) (*ServiceReport, error) {
	endpoints, err := s.endpoints(&q)
	if err != nil {
		return nil, err
	}
	r := &ServiceReport{Schema: ServiceSchema, Service: s.Name.String(), IPs: s.Import.Spec.IPs, Traces: endpoints, Verdict: Delivered}
	traced := false
	for i := range r.Traces {
		one := &r.Traces[i]
		if one.Cluster == local.ID {
			continue
		}
		if local.withoutNodes() {
			one.Gateway = one.Address.Addr().String()
			if g := local.gatewayOfPod(one.Address.Addr()); g.known() {
				one.Gateway = g.Name
			}
			r.Verdict, traced = Unknown, true
			continue
		}
		there := remote
		if there != nil && there.ID != one.Cluster {
			there = nil
		}
		q.To, q.Port = one.Address.Addr(), one.Address.Port()
		if one.Trace, err = Run(ctx, q, local, there, now); err != nil {
			return nil, err
		}
		traced = true
		if one.Trace.Verdict == Dropped || r.Verdict == Delivered {
			r.Verdict = one.Trace.Verdict
		}
	}
	if !traced {
		return nil, fmt.Errorf("Service %s has endpoints in this cluster only: packets to them do not pass Strait; trace to a Service of a remote cluster", r.Service)
	}
	return r, nil
}

// endpoints chooses one endpoint in each cluster, and sets the protocol of a question.
func (s *Service) endpoints(q *Question) ([]EndpointTrace, error) {
	portName, err := s.port(q)
	if err != nil {
		return nil, err
	}
	best := map[string]EndpointTrace{}
	for _, slice := range s.Slices {
		cluster := slice.Labels[mcsv1beta1.LabelSourceCluster]
		port, served := s.targetPort(slice, portName, q.Port)
		if !served || s.Name.Cluster != "" && cluster != s.Name.Cluster {
			continue
		}
		for _, e := range slice.Endpoints {
			if s.Name.Hostname != "" && (e.Hostname == nil || *e.Hostname != s.Name.Hostname) {
				continue
			}
			for _, text := range e.Addresses {
				a, err := netip.ParseAddr(text)
				if err != nil || q.From.IsValid() && q.From.Is4() != a.Is4() {
					continue
				}
				one := EndpointTrace{Cluster: cluster, Address: netip.AddrPortFrom(a, port), Ready: e.Conditions.Ready == nil || *e.Conditions.Ready}
				if was, known := best[cluster]; !known || one.before(was) {
					best[cluster] = one
				}
			}
		}
	}
	var all []EndpointTrace
	for _, one := range best {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b EndpointTrace) int { return strings.Compare(a.Cluster, b.Cluster) })
	if len(all) == 0 {
		return nil, fmt.Errorf("Service %s has no endpoints; strait services %s/%s says why", s.Name, s.Name.Namespace, s.Name.Name)
	}
	return all, nil
}

// before prefers endpoints that are ready, of IPv4, and with a low address.
func (e EndpointTrace) before(other EndpointTrace) bool {
	if e.Ready != other.Ready {
		return e.Ready
	}
	return e.Address.Compare(other.Address) < 0 // IPv4 sorts first
}

// port returns the name of the port in a question, and sets its protocol if it has none.
func (s *Service) port(q *Question) (name string, err error) {
	if q.Port == 0 {
		q.Protocol = cmp.Or(q.Protocol, gateway.ICMP)
		return "", nil
	}
	var ports []string
	for _, p := range s.Import.Spec.Ports {
		protocol := strings.ToLower(string(p.Protocol))
		if protocol == "" {
			protocol = gateway.TCP
		}
		ports = append(ports, fmt.Sprintf("%d/%s", p.Port, protocol))
		known := protocol == gateway.TCP || protocol == gateway.UDP
		if known && p.Port == int32(q.Port) && (q.Protocol == "" || q.Protocol == protocol) {
			q.Protocol = protocol
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("Service %s has no port %d of TCP or UDP; its ports are %s", s.Name, q.Port, strings.Join(ports, ", "))
}

// targetPort returns the port on which the endpoints of a slice serve a port of the Service.
// Clients of a headless Service connect to its endpoints, without a translation of ports.
func (s *Service) targetPort(slice discoveryv1.EndpointSlice, name string, port uint16) (target uint16, served bool) {
	if port == 0 || s.Import.Spec.Type == mcsv1beta1.Headless {
		return port, true
	}
	for _, p := range slice.Ports {
		if p.Port != nil && (p.Name == nil && name == "" || p.Name != nil && *p.Name == name) {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

// ServiceTable writes a report as text.
func ServiceTable(w io.Writer, r *ServiceReport) error {
	var b strings.Builder
	fmt.Fprint(&b, r.Service)
	if len(r.IPs) > 0 {
		fmt.Fprintf(&b, " has the address %s in this cluster", strings.Join(r.IPs, ", "))
	}
	b.WriteByte('\n')
	for _, one := range r.Traces {
		fmt.Fprintf(&b, "\ncluster %s, endpoint %s", one.Cluster, one.Address)
		if !one.Ready {
			b.WriteString(", which is not ready")
		}
		if one.Gateway != "" {
			fmt.Fprintf(&b, ": gateway %s, which accepts connections and opens new ones to the cluster; not traced\n", one.Gateway)
			continue
		}
		if one.Trace == nil {
			b.WriteString(": in this cluster, not traced\n")
			continue
		}
		b.WriteString("\n\n")
		if err := Table(&b, one.Trace); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
