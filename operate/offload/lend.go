package offload

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/operator"
)

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
	largest, all, err := machines(ctx, c)
	if err != nil {
		return l, err
	}
	plan, err := planLend(ctx, c, &o, all)
	if err != nil {
		return l, err
	}
	if err := plan.apply(ctx, c); err != nil {
		return l, err
	}
	agent := lender.Name(o.Peering)
	address, err := mapLender(ctx, c, agent)
	if err != nil {
		return l, err
	}
	fingerprint, err := certificate(ctx, c, agent, o.Wait)
	if err != nil {
		return l, err
	}
	p, err := peering(ctx, c, o.Peering) // another command may have written it meanwhile
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

// PlanLend returns the objects that Lend creates before the lender runs.
func PlanLend(ctx context.Context, c operator.Cluster, o LendOptions) (Plan, error) {
	_, all, err := machines(ctx, c)
	if err != nil {
		return nil, err
	}
	return planLend(ctx, c, &o, all)
}

// planLend sets each resource of o to that in effect: the one given, else the one that is lent already,
// else all of the cluster's.
func planLend(ctx context.Context, c operator.Cluster, o *LendOptions, all corev1.ResourceList) (plan Plan, err error) {
	p, err := peering(ctx, c, o.Peering)
	if err != nil {
		return nil, err
	}
	v := values{Namespace: Namespace, Agent: lender.Name(o.Peering), Command: "lender", Peering: o.Peering, Image: o.Image, Level: o.Level, Isolate: o.Isolate}
	if was := p.Spec.Lend; was != nil {
		all = with(all, was.Resources)
	}
	o.Resources = with(all, o.Resources)
	for name, text := range map[corev1.ResourceName]*string{corev1.ResourceCPU: &v.CPU, corev1.ResourceMemory: &v.Memory, corev1.ResourcePods: &v.Pods} {
		if q, ok := o.Resources[name]; ok {
			*text = q.String()
		}
	}
	for _, m := range merge.Mappings(p.Status.Prefixes) {
		v.Mapped = append(v.Mapped, m.SeenAs.String())
	}
	if err := plan.add(v, "agents.yaml", "lender.yaml"); err != nil {
		return nil, err
	}
	for _, v.Twins = range o.Namespaces {
		if v.Made, err = lendable(ctx, c, v.Twins, o.Peering); err != nil {
			return nil, err
		}
		if err := plan.add(v, "twins.yaml"); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// with returns resources with others, which take precedence.
func with(resources, others corev1.ResourceList) corev1.ResourceList {
	all := make(corev1.ResourceList, len(resources)+len(others))
	maps.Copy(all, resources)
	maps.Copy(all, others)
	return all
}

// machines returns the most of CPU and memory that one machine has for pods, and what all of them
// have. Virtual nodes are no machines.
func machines(ctx context.Context, c operator.Cluster) (largest, all corev1.ResourceList, err error) {
	nodes, err := operator.List(ctx, c, "Nodes", c.Client.Nodes(), metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	largest, all = make(corev1.ResourceList), make(corev1.ResourceList)
	for i := range nodes.Items {
		if install.IsVirtual(&nodes.Items[i]) {
			continue
		}
		has := nodes.Items[i].Status.Allocatable
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if q, ok := has[name]; ok {
				sum := all[name]
				sum.Add(q)
				all[name] = sum
				if is := largest[name]; name != corev1.ResourceEphemeralStorage && q.Cmp(is) > 0 {
					largest[name] = q
				}
			}
		}
	}
	return largest, all, nil
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
	taken, err := operator.List(ctx, c, "AddressClaims", c.Client.AddressClaims(), metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	mappings, err := operator.List(ctx, c, "AddressMappings", c.Client.AddressMappings(), metav1.ListOptions{})
	if err != nil {
		return "", err
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
	from, err := ipam.NewSpace(pools, reserved)
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
