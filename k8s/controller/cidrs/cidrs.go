// Package cidrs converts CIDRs and addresses between objects and net/netip, checks which ones
// Strait's objects may hold, and reduces lists of them.
package cidrs

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// MaxNodeCIDRs is the maximum number of CIDRs of nodes: in a ClusterNetwork's status, and as sources in the policies of gateways.
const MaxNodeCIDRs = 1024

// Parse parses prefixes as Kubernetes writes them. Host bits are cleared; prefixes
// that v1alpha1.CIDR does not allow are an error.
func Parse[S ~string](texts []S) (prefixes []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(string(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not a prefix", text)
		}
		if p = p.Masked(); !Ordinary(p) {
			return nil, fmt.Errorf("%v is too wide or contains addresses that are not ordinary unicast", p)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// Valid parses prefixes of an object. Host bits are cleared, and invalid prefixes are skipped.
func Valid(texts []v1alpha1.CIDR) (prefixes []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(string(text)); err == nil {
			prefixes = append(prefixes, p.Masked())
		}
	}
	return prefixes
}

var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"), netip.MustParsePrefix("::/127"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// Ordinary reports whether a prefix is valid in Strait's objects.
func Ordinary(p netip.Prefix) bool {
	shortest := 16
	if p.Addr().Is4() {
		shortest = 8
	}
	return !p.Addr().Is4In6() && p.Bits() >= shortest && !slices.ContainsFunc(special, p.Overlaps)
}

// Texts returns prefixes as objects hold them.
func Texts(prefixes []netip.Prefix) (texts []v1alpha1.CIDR) {
	for _, p := range prefixes {
		texts = append(texts, v1alpha1.CIDR(p.String()))
	}
	return texts
}

// Single returns the prefix that contains one address.
func Single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// Merged returns the smallest sorted list of prefixes with the same addresses.
func Merged(prefixes []netip.Prefix) (all []netip.Prefix) {
	for _, p := range Sorted(prefixes) {
		for len(all) > 0 {
			last := all[len(all)-1]
			if last.Overlaps(p) { // in order, so it contains p
				p = last
			} else if parent, ok := parent(last); ok && last.Bits() == p.Bits() && parent.Contains(p.Addr()) {
				p = parent
			} else {
				break
			}
			all = all[:len(all)-1]
		}
		all = append(all, p)
	}
	return all
}

// Sorted returns a sorted copy.
func Sorted(prefixes []netip.Prefix) []netip.Prefix {
	prefixes = slices.Clone(prefixes)
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return prefixes
}

func parent(p netip.Prefix) (netip.Prefix, bool) {
	if p.Bits() == 0 {
		return p, false
	}
	return netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked(), true
}

// Covered returns at most limit prefixes that cover the given ones, with as few additional
// addresses as possible.
func Covered(prefixes []netip.Prefix, limit int) []netip.Prefix {
	all := Merged(prefixes)
	for len(all) > limit {
		longest := slices.MaxFunc(all, func(a, b netip.Prefix) int { return HostBits(b) - HostBits(a) })
		for i, p := range all {
			if wider, ok := parent(p); ok && HostBits(p) == HostBits(longest) {
				all[i] = wider
			}
		}
		all = Merged(all)
	}
	return all
}

// HostBits returns the number of host bits of a prefix.
func HostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

// OfFamily returns the prefixes of one IP family.
func OfFamily(prefixes []netip.Prefix, is4 bool) (some []netip.Prefix) {
	for _, p := range prefixes {
		if p.Addr().Is4() == is4 {
			some = append(some, p)
		}
	}
	return some
}

// OrdinaryAddresses returns the ordinary unicast addresses among the texts. Host names and
// link-local addresses are skipped.
func OrdinaryAddresses(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && Ordinary(Single(a.Unmap())) {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// IPs returns addresses as objects hold them.
func IPs(addresses []netip.Addr) (texts []v1alpha1.IP) {
	for _, a := range addresses {
		texts = append(texts, v1alpha1.IP(a.String()))
	}
	return texts
}

// Addrs parses addresses of an object. Invalid ones are skipped.
func Addrs(texts []v1alpha1.IP) (addresses []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(string(text)); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// AttachedAddresses returns all addresses that an attachment uses.
func AttachedAddresses(a *v1alpha1.NodeAttachment) (used []netip.Addr) {
	return append(Addrs(a.Spec.InternalAddresses), Addrs(a.Spec.ExternalAddresses)...)
}
