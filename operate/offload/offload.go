package offload

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/identity"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/operator"
)

// Namespace is that of the agents.
const Namespace = "strait-offload"

// port is that of the lender's Service.
const port = 6097

// madeAnnotation is on namespaces that Lend has made.
const madeAnnotation = "strait.dev/made-by"

// poll is the interval of looking at what an agent has done.
const poll = time.Second

// LendOptions are what is lent to the cluster of a Peering.
type LendOptions struct {
	Peering    string
	Namespaces []string
	Resources  corev1.ResourceList // capacity that the other cluster sees
	Level      string              // Pod Security level of the namespaces
	Isolate    bool                // their pods reach no other pods of this cluster
	Image      string              // of the lender
	Wait       time.Duration       // for the lender to run, at most
}

// Lent is what is lent to the cluster of a Peering.
type Lent struct {
	Cluster string               `json:"cluster"` // as in operator.Cluster
	Peering string               `json:"peering"`
	Lend    v1alpha1.PeeringLend `json:"lend"`
}

// Lend lends namespaces: it makes them, the lender with its rights in them and nowhere else, and
// its address for the other cluster. Namespaces that are lent already stay lent.
func Lend(ctx context.Context, c operator.Cluster, o LendOptions) (l Lent, err error) {
	p, err := peering(ctx, c, o.Peering)
	if err != nil {
		return l, err
	}
	made := make(map[string]bool)
	for _, name := range o.Namespaces {
		if made[name], err = lendable(ctx, c, name, o.Peering); err != nil {
			return l, err
		}
	}
	v := values{Namespace: Namespace, Agent: lender.Name(o.Peering), Command: "lender", Peering: o.Peering, Image: o.Image, Level: o.Level, Isolate: o.Isolate}
	if was := p.Spec.Lend; was != nil && len(o.Resources) == 0 {
		o.Resources = was.Resources
	}
	for name, text := range map[corev1.ResourceName]*string{corev1.ResourceCPU: &v.CPU, corev1.ResourceMemory: &v.Memory, corev1.ResourcePods: &v.Pods} {
		if q, ok := o.Resources[name]; ok {
			*text = q.String()
		}
	}
	for _, m := range translate.Mappings(p.Status.Prefixes) {
		v.Mapped = append(v.Mapped, m.SeenAs.String())
	}
	largest, err := largestMachine(ctx, c)
	if err != nil {
		return l, err
	}
	for _, manifest := range []string{"agents.yaml", "lender.yaml"} {
		if err := apply(ctx, c, manifest, v); err != nil {
			return l, err
		}
	}
	for _, v.Twins = range o.Namespaces {
		v.Made = made[v.Twins]
		if err := apply(ctx, c, "twins.yaml", v); err != nil {
			return l, err
		}
	}
	address, err := mapLender(ctx, c, v.Agent)
	if err != nil {
		return l, err
	}
	fingerprint, err := certificate(ctx, c, v.Agent, o.Wait)
	if err != nil {
		return l, err
	}
	lend := &v1alpha1.PeeringLend{
		Namespaces: o.Namespaces, Resources: o.Resources, Largest: largest,
		Lender: &v1alpha1.OffloadLender{Address: address, Port: port, Fingerprint: fingerprint},
	}
	if was := p.Spec.Lend; was != nil {
		lend.Namespaces = slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.Namespaces, o.Namespaces))))
	}
	return Lent{c.Name, o.Peering, *lend}, applySpec(ctx, c, p, v1alpha1.PeeringSpec{Lend: lend, Borrow: p.Spec.Borrow})
}

// largestMachine returns the most of CPU and memory that one machine has. Virtual nodes are no
// machines.
func largestMachine(ctx context.Context, c operator.Cluster) (corev1.ResourceList, error) {
	nodes, err := c.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.Failed("list nodes", err)
	}
	largest := make(corev1.ResourceList)
	for i := range nodes.Items {
		if install.IsVirtual(&nodes.Items[i]) {
			continue
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			q, has := nodes.Items[i].Status.Allocatable[name]
			if is, ok := largest[name]; has && (!ok || q.Cmp(is) > 0) {
				largest[name] = q
			}
		}
	}
	return largest, nil
}

// BorrowOptions are what is borrowed from the cluster of a Peering.
type BorrowOptions struct {
	Peering   string
	NodeName  string              // empty: that of the Peering, or its default
	Resources corev1.ResourceList // limit of what is lent
	Image     string              // of the borrower
	Wait      time.Duration       // for the borrower to run, at most
}

// Borrowed is what pods of this cluster need to run in the cluster of a Peering.
type Borrowed struct {
	Cluster      string `json:"cluster"` // as in operator.Cluster
	Peering      string `json:"peering"`
	Node         string `json:"node"`
	RuntimeClass string `json:"runtimeClass"`
}

// Borrow makes the borrower, with the identity of its node, and the RuntimeClass of the Peering.
func Borrow(ctx context.Context, c operator.Cluster, o BorrowOptions) (b Borrowed, err error) {
	p, err := peering(ctx, c, o.Peering)
	if err != nil {
		return b, err
	}
	if was := p.Spec.Borrow; was != nil && o.NodeName == "" {
		o.NodeName = was.NodeName
	}
	b = Borrowed{Cluster: c.Name, Peering: o.Peering, Node: borrower.NodeName(o.Peering, o.NodeName), RuntimeClass: runtimeClass(o.Peering)}
	v := values{Namespace: Namespace, Agent: borrower.Name(o.Peering), Command: "borrower", Peering: o.Peering, Image: o.Image, Node: b.Node, RuntimeClass: b.RuntimeClass}
	for _, manifest := range []string{"agents.yaml", "runtimeclass.yaml"} {
		if err := apply(ctx, c, manifest, v); err != nil {
			return b, err
		}
	}
	fingerprint, err := certificate(ctx, c, v.Agent, o.Wait)
	if err != nil {
		return b, err
	}
	borrow := &v1alpha1.PeeringBorrow{NodeName: o.NodeName, Resources: o.Resources, Fingerprint: fingerprint}
	if was := p.Spec.Borrow; was != nil && len(borrow.Resources) == 0 {
		borrow.Resources = was.Resources
	}
	return b, applySpec(ctx, c, p, v1alpha1.PeeringSpec{Lend: p.Spec.Lend, Borrow: borrow})
}

// runtimeClass returns the name of a Peering's RuntimeClass.
func runtimeClass(peering string) string { return "strait-" + peering }

// Offloaded are namespaces whose pods may run in the cluster of a Peering.
type Offloaded struct {
	Cluster      string   `json:"cluster"` // as in operator.Cluster
	Peering      string   `json:"peering"`
	Namespaces   []string `json:"namespaces"`
	RuntimeClass string   `json:"runtimeClass"` // of pods that do
}

// Offload lets pods of namespaces run in the cluster of a Peering.
func Offload(ctx context.Context, c operator.Cluster, name string, namespaces []string) (o Offloaded, err error) {
	p, err := peering(ctx, c, name)
	if err != nil {
		return o, err
	}
	if p.Spec.Borrow == nil {
		return o, fmt.Errorf("%s: nothing is borrowed from the cluster of Peering %s; first run: strait borrow --from %s", c.Name, name, name)
	}
	for _, namespace := range namespaces {
		is, err := c.Client.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return o, c.Failed("read namespace "+namespace, err)
		}
		if to, ok := is.Labels[borrower.OffloadLabel]; ok && to != name {
			return o, fmt.Errorf("%s: namespace %s is offloaded to Peering %s already", c.Name, namespace, to)
		}
		if err := apply(ctx, c, "offloaded.yaml", values{Namespace: Namespace, Agent: borrower.Name(name), Peering: name, Offloaded: namespace}); err != nil {
			return o, err
		}
	}
	return Offloaded{c.Name, name, namespaces, runtimeClass(name)}, nil
}

func peering(ctx context.Context, c operator.Cluster, name string) (*v1alpha1.Peering, error) {
	p, err := c.Client.Peerings().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: there is no Peering %s; strait status lists them", c.Name, name)
	}
	return p, c.Failed("read Peering "+name, err)
}

// lendable returns whether a namespace is made by Lend, or an error for one that exists and is not
// lent to a Peering: pods of another cluster do not run beside others.
func lendable(ctx context.Context, c operator.Cluster, namespace, to string) (made bool, err error) {
	is, err := c.Client.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, c.Failed("read namespace "+namespace, err)
	case is.Labels[translate.PeeringLabel] != to:
		return false, fmt.Errorf("%s: namespace %s exists and is not lent to Peering %s; lend a namespace that does not exist yet, or label this one with %s=%s if pods of the other cluster may run beside its own",
			c.Name, namespace, to, translate.PeeringLabel, to)
	}
	return is.Annotations[madeAnnotation] != "", nil
}

// mapLender maps an external address to the lender's Service, and returns it.
func mapLender(ctx context.Context, c operator.Cluster, agent string) (v1alpha1.IP, error) {
	s, err := c.Client.Services(Namespace).Get(ctx, agent, metav1.GetOptions{})
	if err != nil {
		return "", c.Failed("read Service "+agent, err)
	}
	m, err := c.Client.AddressMappings().Get(ctx, agent, metav1.GetOptions{})
	switch {
	case err == nil && m.Spec.Target == v1alpha1.IP(s.Spec.ClusterIP):
		return m.Spec.External, nil
	case err == nil:
		m.Spec.Target = v1alpha1.IP(s.Spec.ClusterIP)
		_, err = c.Client.AddressMappings().Update(ctx, m, metav1.UpdateOptions{FieldManager: manager})
		return m.Spec.External, c.Failed("update AddressMapping "+agent, err)
	case !apierrors.IsNotFound(err):
		return "", c.Failed("read AddressMapping "+agent, err)
	}
	external, err := freeAddress(ctx, c, agent)
	if err != nil {
		return "", err
	}
	_, err = c.Client.AddressMappings().Create(ctx, &v1alpha1.AddressMapping{
		ObjectMeta: metav1.ObjectMeta{Name: agent},
		Spec:       v1alpha1.AddressMappingSpec{External: external, Target: v1alpha1.IP(s.Spec.ClusterIP)},
	}, metav1.CreateOptions{FieldManager: manager})
	return external, c.Failed("create AddressMapping "+agent, err)
}

// freeAddress returns an external address that nothing uses.
func freeAddress(ctx context.Context, c operator.Cluster, agent string) (v1alpha1.IP, error) {
	network, err := c.Network(ctx)
	if err != nil {
		return "", err
	}
	taken, err := c.Client.AddressClaims().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", c.Failed("read AddressClaims", err)
	}
	mappings, err := c.Client.AddressMappings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", c.Failed("read AddressMappings", err)
	}
	var pools []netip.Prefix
	for _, text := range network.Spec.ExternalCIDRs {
		if pool, err := netip.ParsePrefix(string(text)); err == nil {
			pools = append(pools, pool)
		}
	}
	var reserved []ipam.Reserved
	for i := range taken.Items {
		if g := claims.Grant(taken.Items[i].Spec); g.Prefix.IsValid() {
			reserved = append(reserved, ipam.Reserved{Prefix: g.Prefix, Use: g.Owner})
		}
	}
	for _, m := range mappings.Items {
		if a, err := netip.ParseAddr(string(m.Spec.External)); err == nil {
			reserved = append(reserved, ipam.Reserved{Prefix: netip.PrefixFrom(a, a.BitLen()), Use: "AddressMapping " + m.Name})
		}
	}
	from, err := ipam.NewSpace(pools, reserved, nil)
	if err != nil {
		return "", fmt.Errorf("%s: choose an address for the lender: %w", c.Name, err)
	}
	errs := []error{fmt.Errorf("%s: no external address is free for the lender; add a CIDR to spec.externalCIDRs of ClusterNetwork %s", c.Name, network.Name)}
	for _, pool := range pools {
		a, err := from.Address(agent, pool)
		if err == nil {
			return v1alpha1.IP(a.String()), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// certificate returns the fingerprint of an agent's certificate, which the agent makes when it
// first runs.
func certificate(ctx context.Context, c operator.Cluster, agent string, wait time.Duration) (v1alpha1.Fingerprint, error) {
	for deadline := time.Now().Add(wait); ; {
		is, err := c.Client.Secrets(Namespace).Get(ctx, agent, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", c.Failed("read Secret "+agent, err)
		}
		if err == nil && is.Annotations[identity.FingerprintAnnotation] != "" {
			return v1alpha1.Fingerprint(is.Annotations[identity.FingerprintAnnotation]), nil
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%s: %s does not run after %v; look at: kubectl --namespace %s describe deployment %s; then run the command again",
				c.Name, agent, wait, Namespace, agent)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(poll):
		}
	}
}

// applySpec sets what a Peering lends and borrows.
func applySpec(ctx context.Context, c operator.Cluster, p *v1alpha1.Peering, spec v1alpha1.PeeringSpec) error {
	_, err := c.Client.Peerings().Apply(ctx, &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Spec: spec}, manager)
	return c.Failed("write Peering "+p.Name, err)
}
