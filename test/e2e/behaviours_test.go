//go:build e2e || nightly

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// behaviours are those that the conformance suite of the Multi-Cluster Services API tests:
// R are required, O optional.
var behaviours = []struct {
	name string
	test func(*behaviour)
}{
	{"R1_an import exists while at least one cluster exports", existsWhileExported},
	{"R2_a Service with a cluster IP is imported as ClusterSetIP in each cluster until it is unexported", clusterSetIP},
	{"R3_session affinity is that of the Service", sessionAffinity},
	{"R4_the internal traffic policy is that of the Service", internalTrafficPolicy},
	{"R5_the traffic distribution is that of the Service", trafficDistribution},
	{"R6_an import has an IP for each IP family", ipFamilies},
	{"R7_ports are those of the Service", ports},
	{"R8_ports of two exports are united and conflict", unionOfPorts},
	{"R9_of conflicting ports, those of the oldest export apply", conflictingPorts},
	{"R10_a headless Service is imported as Headless in each cluster until it is unexported", headless},
	{"R11_a Headless import has no IP", headlessIP},
	{"R12_an ExternalName Service is not valid and not imported", externalName},
	{"R13_of conflicting types, that of the oldest export applies", conflictingTypes},
	{"R14_a Service that is not exported cannot be reached", notExported},
	{"O1_only exported labels and annotations are on the import", exportedLabels},
	{"O2_of conflicting labels and annotations, those of the oldest export apply", conflictingLabels},
	{"O3_an exported Service is reached by name", reached},
	{"O4_only the cluster that exports a Service is reached", exporterReached},
	{"O5_a port name with two numbers is routed to the cluster with that number", portNumbers},
	{"O6_each port is routed to the cluster that has it", portNames},
	{"O7_the name resolves to the IP of the import", resolvesToIP},
	{"O8_an SRV query returns the port and the name", serviceRecords},
	{"O9_the name in cluster.local resolves to the local Service", localName},
	{"O10_the name of a headless Service resolves to the addresses of its pods", resolvesToPods},
	{"O11_the name of a pod resolves to its address", resolvesToPod},
	{"O12_an SRV query of a headless Service returns its pods", podServiceRecords},
	{"O13_an import has EndpointSlices with the labels of the API until it is unexported", endpointSlices},
}

func existsWhileExported(b *behaviour) {
	b.service = b.share(b.sites[0], b.service, b.export)
	b.imported(b.sites[0], nil)
	b.share(b.sites[1], helloService(), helloExport())
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		if len(i.Status.Clusters) != 2 {
			return fmt.Errorf("it is imported from %v", i.Status.Clusters)
		}
		return nil
	})
	b.throughout("two clusters export", func() error { return b.present(b.sites[0]) })
	b.unshare(b.sites[0])
	b.throughout("the second cluster exports", func() error { return b.present(b.sites[0]) })
	b.unshare(b.sites[1])
	b.until(importsWithin, "no cluster exports", func() error { return b.missing(b.sites[0]) })
}

func clusterSetIP(b *behaviour) { b.imports(mcsv1beta1.ClusterSetIP) }

func headless(b *behaviour) {
	b.service.Spec.ClusterIP = corev1.ClusterIPNone
	b.imports(mcsv1beta1.Headless)
}

// imports checks that the Service is imported in each cluster while it is exported.
func (b *behaviour) imports(as mcsv1beta1.ServiceImportType) {
	b.Helper()
	b.share(b.sites[0], b.service, b.export)
	b.condition(b.sites[0], mcsv1beta1.ServiceExportConditionValid, metav1.ConditionTrue)
	for _, s := range b.sites {
		if is := b.imported(s, nil); is.Spec.Type != as {
			b.Errorf("in %s, the type is %s, want %s", s.name, is.Spec.Type, as)
		}
	}
	b.unshare(b.sites[0])
	for _, s := range b.sites {
		b.until(importsWithin, "unexported", func() error { return b.missing(s) })
	}
}

// equal returns an error unless two values are equal.
func equal[T any](is, want T) error {
	if !reflect.DeepEqual(is, want) {
		return fmt.Errorf("it is %+v, want %+v", is, want)
	}
	return nil
}

func sessionAffinity(b *behaviour) {
	s := b.share(b.sites[0], b.service, b.export)
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return errors.Join(equal(i.Spec.SessionAffinity, s.Spec.SessionAffinity), equal(i.Spec.SessionAffinityConfig, s.Spec.SessionAffinityConfig))
	})
}

func internalTrafficPolicy(b *behaviour) {
	b.service.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	s := b.share(b.sites[0], b.service, b.export)
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return equal(i.Spec.InternalTrafficPolicy, s.Spec.InternalTrafficPolicy)
	})
}

func trafficDistribution(b *behaviour) {
	b.service.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferClose)
	s := b.share(b.sites[0], b.service, b.export)
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return equal(i.Spec.TrafficDistribution, s.Spec.TrafficDistribution)
	})
}

func ipFamilies(b *behaviour) {
	b.share(b.sites[0], b.service, b.export)
	is := b.imported(b.sites[0], hasIPs)
	var families []corev1.IPFamily
	for _, ip := range is.Spec.IPs {
		address, err := netip.ParseAddr(ip)
		must(b, err)
		family := corev1.IPv6Protocol
		if address.Is4() {
			family = corev1.IPv4Protocol
		}
		families = append(families, family)
	}
	must(b, equal(is.Spec.IPFamilies, families))
}

func hasIPs(i *mcsv1beta1.ServiceImport) error {
	if len(i.Spec.IPs) == 0 {
		return errors.New("it has no IP")
	}
	return nil
}

// portsOf returns the ports of an import of Services with these ports, by name.
func portsOf(all ...corev1.ServicePort) (of []mcsv1beta1.ServicePort) {
	for _, p := range all {
		of = append(of, mcsv1beta1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, AppProtocol: p.AppProtocol})
	}
	return byName(of)
}

func byName(all []mcsv1beta1.ServicePort) []mcsv1beta1.ServicePort {
	return slices.SortedFunc(slices.Values(all), func(a, b mcsv1beta1.ServicePort) int { return strings.Compare(a.Name, b.Name) })
}

func ports(b *behaviour) {
	s := b.share(b.sites[0], b.service, b.export)
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return equal(byName(i.Spec.Ports), portsOf(s.Spec.Ports...))
	})
}

func unionOfPorts(b *behaviour) {
	second := helloService()
	second.Spec.Ports[1] = corev1.ServicePort{Name: "stcp", Port: 142, Protocol: corev1.ProtocolSCTP}
	b.shareBoth(second, helloExport())
	b.conflicting()
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return equal(byName(i.Spec.Ports), portsOf(append(slices.Clone(b.service.Spec.Ports), second.Spec.Ports[1])...))
	})
}

func conflictingPorts(b *behaviour) {
	second := helloService()
	second.Spec.Ports = second.Spec.Ports[:1]
	second.Spec.Ports[0].Port++
	b.shareBoth(second, helloExport())
	b.conflicting()
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return equal(byName(i.Spec.Ports), portsOf(b.service.Spec.Ports...))
	})
}

func headlessIP(b *behaviour) {
	b.service.Spec.ClusterIP = corev1.ClusterIPNone
	b.share(b.sites[0], b.service, b.export)
	b.imported(b.sites[0], nil)
	b.throughout("without IPs", func() error {
		is, err := b.sites[0].client.ServiceImports(b.namespace).Get(b.Context(), hello, metav1.GetOptions{})
		if err == nil && len(is.Spec.IPs) > 0 {
			err = fmt.Errorf("it has the IPs %v", is.Spec.IPs)
		}
		return err
	})
}

func externalName(b *behaviour) {
	b.service.Spec.Type, b.service.Spec.ExternalName, b.service.Spec.IPFamilyPolicy = corev1.ServiceTypeExternalName, "example.com", nil
	b.share(b.sites[0], b.service, b.export)
	b.condition(b.sites[0], mcsv1beta1.ServiceExportConditionValid, metav1.ConditionFalse)
	b.throughout("not imported", func() error { return b.missing(b.sites[0]) })
}

func conflictingTypes(b *behaviour) {
	second := helloService()
	second.Spec.ClusterIP = corev1.ClusterIPNone
	b.shareBoth(second, helloExport())
	b.conflicting()
	for _, s := range b.sites {
		if is := b.imported(s, nil); is.Spec.Type != mcsv1beta1.ClusterSetIP {
			b.Errorf("in %s, the type is %s", s.name, is.Spec.Type)
		}
	}
}

func notExported(b *behaviour) {
	b.deploy(b.sites[0], 1)
	b.create(b.sites[0], b.service)
	b.podAddresses(b.sites[0], 1)
	for _, s := range b.sites {
		b.until(podsWithin, "from "+s.name+", the name does not resolve", func() error { // a query that is lost takes longer than a call
			out := b.run(s, b.calls(20, 42))
			if strings.Contains(out, "pod ip ") {
				b.Fatalf("from %s, a call is answered: %q", s.name, out)
			}
			if strings.Count(out, "bad address") != 20 {
				return fmt.Errorf("calls end with %q", out)
			}
			return nil
		})
	}
}

func exportedLabels(b *behaviour) {
	b.export.Spec.ExportedLabels, b.export.Spec.ExportedAnnotations = map[string]string{"exported": "yes"}, map[string]string{"exported": "yes"}
	s := b.share(b.sites[0], b.service, b.export)
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return errors.Join(
			among(i.Labels, b.export.Spec.ExportedLabels, s.Labels, b.export.Labels),
			among(i.Annotations, b.export.Spec.ExportedAnnotations, s.Annotations, b.export.Annotations))
	})
}

// among returns an error unless a map has all entries of one map, and none of others.
func among(is, all map[string]string, none ...map[string]string) error {
	for key, value := range all {
		if is[key] != value {
			return fmt.Errorf("%v lacks %s=%s", is, key, value)
		}
	}
	for _, other := range none {
		for key := range other {
			if _, has := is[key]; has {
				return fmt.Errorf("%v has %s", is, key)
			}
		}
	}
	return nil
}

func conflictingLabels(b *behaviour) {
	first, other := map[string]string{"first": "yes"}, map[string]string{"second": "yes"}
	b.export.Spec.ExportedLabels, b.export.Spec.ExportedAnnotations = first, maps.Clone(first)
	second := helloExport()
	second.Spec.ExportedLabels, second.Spec.ExportedAnnotations = other, maps.Clone(other)
	b.shareBoth(helloService(), second)
	b.conflicting()
	b.imported(b.sites[0], func(i *mcsv1beta1.ServiceImport) error {
		return errors.Join(among(i.Labels, first, other), among(i.Annotations, first, other))
	})
}

func reached(b *behaviour) {
	b.deploy(b.sites[0], 1)
	b.share(b.sites[0], b.service, b.export)
	for _, s := range b.sites { // before the first query, because CoreDNS caches its failure for 30 s
		b.answersAt(s, b.imported(s, hasIPs).Spec.IPs)
	}
	b.reaches(42, 1, "")
}

func exporterReached(b *behaviour) {
	for _, s := range b.sites {
		b.deploy(s, 1)
	}
	b.create(b.sites[1], helloService())
	b.share(b.sites[0], b.service, b.export)
	b.reaches(42, 10, b.podAddresses(b.sites[0], 1)[0])
}

func portNumbers(b *behaviour) {
	second := helloService()
	second.Spec.Ports = []corev1.ServicePort{{Name: "tcp", Port: 4242, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(42)}}
	for _, s := range b.sites {
		b.deploy(s, 1)
	}
	b.shareBoth(second, helloExport())
	b.reaches(42, 10, b.podAddresses(b.sites[0], 1)[0])
}

func portNames(b *behaviour) {
	second := helloService()
	second.Spec.Ports = []corev1.ServicePort{{Name: "tcp2", Port: 4242, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(42)}}
	for _, s := range b.sites {
		b.deploy(s, 1)
	}
	b.shareBoth(second, helloExport())
	b.reaches(42, 10, b.podAddresses(b.sites[0], 1)[0])
	b.reaches(4242, 10, b.podAddresses(b.sites[1], 1)[0])
}

func resolvesToIP(b *behaviour) {
	b.share(b.sites[0], b.service, b.export)
	for _, s := range b.sites {
		is := b.imported(s, hasIPs)
		b.resolves(s, b.host("clusterset.local"), is.Spec.IPs)
	}
}

func localName(b *behaviour) {
	s := b.share(b.sites[0], b.service, b.export)
	b.resolves(b.sites[0], b.host("cluster.local"), []string{s.Spec.ClusterIP})
}

// answers are the parts of the output of nslookup with addresses and service records.
var (
	addressAnswers = regexp.MustCompile(`Name:.*\s*Address:\s*(\S+)`)
	serviceAnswers = regexp.MustCompile(`=\s*\d+\s+\d+\s+(\d+)\s+([a-zA-Z0-9.-]+)`)
)

// resolves waits until a name has these addresses in a cluster, of IPv4 and, if there are
// any, of IPv6.
func (b *behaviour) resolves(in *site, name string, want []string) {
	b.Helper()
	wanted := map[string][]string{"A": nil}
	for _, address := range slices.Sorted(slices.Values(want)) {
		kind := "A"
		if netip.MustParseAddr(address).Is6() {
			kind = "AAAA"
		}
		wanted[kind] = append(wanted[kind], address)
	}
	for kind, addresses := range wanted {
		b.answered(in, name, kind, addresses)
	}
}

// answered waits until a query for a name has these answers in a cluster.
func (b *behaviour) answered(in *site, name, kind string, want []string) {
	b.Helper()
	b.until(importsWithin, fmt.Sprintf("in %s, %s resolves", in.name, name), func() error {
		var is []string
		out := b.run(in, "nslookup -type="+kind+" "+name+".")
		for _, m := range addressAnswers.FindAllStringSubmatch(out, -1) {
			is = append(is, m[1])
		}
		if slices.Sort(is); !slices.Equal(is, want) {
			return fmt.Errorf("the answer is %q, want %q", out, want)
		}
		return nil
	})
}

// records waits until an SRV query for the Service has so many answers in a cluster, and
// returns them: port and name.
func (b *behaviour) records(in *site, want int) (all [][2]string) {
	b.Helper()
	b.until(importsWithin, "in "+in.name+", an SRV query is answered", func() error {
		all = nil
		out := b.run(in, "nslookup -type=SRV "+b.host("clusterset.local")+".")
		for _, m := range serviceAnswers.FindAllStringSubmatch(out, -1) {
			all = append(all, [2]string{m[1], strings.TrimSuffix(m[2], ".")})
		}
		if len(all) != want {
			return fmt.Errorf("the answer is %q, want %d records", out, want)
		}
		return nil
	})
	return all
}

func serviceRecords(b *behaviour) {
	b.share(b.sites[0], b.service, b.export)
	for _, s := range b.sites {
		must(b, equal(b.records(s, 1), [][2]string{{"42", b.host("clusterset.local")}}))
	}
}

// resolvesToPods is the one behaviour that depends on the CIDRs: the suite demands the
// addresses that the pods have in their own cluster from all clusters. These reach other
// pods where the CIDRs overlap, so the answers there are the mapped addresses.
func resolvesToPods(b *behaviour) {
	b.service.Spec.ClusterIP = corev1.ClusterIPNone
	b.deploy(b.sites[0], 2)
	b.share(b.sites[0], b.service, b.export)
	addresses := b.podAddresses(b.sites[0], 2)
	for _, s := range b.sites {
		b.imported(s, nil)
		b.endpointsReady(s, 2)
		b.resolves(s, b.host("clusterset.local"), b.mapped(s, addresses))
	}
	if !b.distinct {
		b.Log("the CIDRs overlap: answers in the second cluster are mapped addresses, which the conformance suite does not expect")
	}
}

func resolvesToPod(b *behaviour) {
	b.service.Spec.ClusterIP = corev1.ClusterIPNone
	_, err := b.sites[0].client.StatefulSets(b.namespace).Create(b.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "hello-ss"},
		Spec:       appsv1.StatefulSetSpec{ServiceName: hello, Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": hello}}, Template: helloPods()},
	}, metav1.CreateOptions{})
	must(b, err)
	b.share(b.sites[0], b.service, b.export)
	for _, s := range b.sites {
		slice := b.fromImport(s, func(slice *discoveryv1.EndpointSlice) error {
			ready := 0
			for _, e := range slice.Endpoints {
				if isReady(e) && e.Hostname != nil && *e.Hostname != "" {
					ready++
				}
			}
			if ready != 2 || len(slice.Endpoints) != 2 {
				return fmt.Errorf("%d of %d endpoints are ready and have a host name", ready, len(slice.Endpoints))
			}
			return nil
		})
		for _, e := range slice.Endpoints {
			b.resolves(s, *e.Hostname+"."+slice.Labels[mcsv1beta1.LabelSourceCluster]+"."+b.host("clusterset.local"), e.Addresses)
		}
	}
}

func podServiceRecords(b *behaviour) {
	b.service.Spec.ClusterIP = corev1.ClusterIPNone
	b.deploy(b.sites[0], 2)
	families := len(b.share(b.sites[0], b.service, b.export).Spec.IPFamilies)
	addresses := b.podAddresses(b.sites[0], 2)
	for _, s := range b.sites {
		b.endpointsReady(s, len(addresses))
		records := b.records(s, families*len(addresses))
		for _, address := range addresses {
			host := strings.ReplaceAll(address, ".", "-") // in its own cluster, of a pod without a host name
			if !slices.ContainsFunc(records, func(r [2]string) bool { return strings.HasPrefix(r[1], host+".") && r[0] == strconv.Itoa(42) }) {
				b.Errorf("in %s, the records are %v, want one of %s", s.name, records, host)
			}
		}
	}
}

func endpointSlices(b *behaviour) {
	b.deploy(b.sites[0], 1)
	b.share(b.sites[0], b.service, b.export)
	names := make(map[*site]string)
	for _, s := range b.sites {
		slice := b.fromImport(s, func(*discoveryv1.EndpointSlice) error { return nil })
		names[s] = slice.Name
		if by := slice.Labels[discoveryv1.LabelManagedBy]; slice.Labels[mcsv1beta1.LabelServiceName] != hello || by == "" || by == "endpointslice-controller.k8s.io" {
			b.Errorf("in %s, the labels are %v", s.name, slice.Labels)
		}
	}
	b.unshare(b.sites[0])
	for s, name := range names {
		b.until(importsWithin, "in "+s.name+", the EndpointSlice is deleted", func() error {
			_, err := s.client.EndpointSlices(b.namespace).Get(b.Context(), name, metav1.GetOptions{})
			if err == nil {
				err = errors.New("it exists")
			} else if apierrors.IsNotFound(err) {
				err = nil
			}
			return err
		})
	}
}
