package dns

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
)

// NodeLocal DNSCache answers the pods of a node in place of CoreDNS. It forwards names of the
// cluster's own zone to CoreDNS, and all others to the name servers of the node, which do not
// know the zone of imported Services. So that zone needs a server block of its own, which
// forwards as the block of the cluster's own zone does.

type nodeLocal struct {
	set    string // its DaemonSet, as namespace/name
	config *corev1.ConfigMap
	keys   []string // of its Corefiles in config
	stub   bool     // the ConfigMap kube-dns, which it reads, has a stub domain for the zone
}

// corefileKey is the prefix of the keys of Corefiles in the ConfigMap of NodeLocal DNSCache.
const corefileKey = "Corefile"

// findNodeLocal returns the NodeLocal DNSCaches of a namespace, none if there is none.
func findNodeLocal(ctx context.Context, c *client.Client, namespace string) (all []*nodeLocal, err error) {
	sets, err := c.DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list DaemonSets of %s: %w", namespace, err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if !isNodeLocal(set) {
			continue
		}
		is, err := readNodeLocal(ctx, c, set)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(other *nodeLocal) bool { return other.config.Name == is.config.Name }) {
			all = append(all, is)
		}
	}
	return all, nil
}

// isNodeLocal reports whether a DaemonSet is NodeLocal DNSCache, whatever a distribution calls
// it.
func isNodeLocal(set *appsv1.DaemonSet) bool {
	label := set.Labels["k8s-app"]
	return label == "node-local-dns" || label == "nodelocaldns" || slices.ContainsFunc(set.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return strings.Contains(c.Image, "dns-node-cache")
	})
}

func readNodeLocal(ctx context.Context, c *client.Client, set *appsv1.DaemonSet) (*nodeLocal, error) {
	is := &nodeLocal{set: set.Namespace + "/" + set.Name}
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		m, err := c.ConfigMaps(set.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // it is optional
		}
		if err != nil {
			return nil, fmt.Errorf("read ConfigMap %s/%s: %w", set.Namespace, v.ConfigMap.Name, err)
		}
		if stub, err := stubDomains(m); err == nil && len(stub[Zone]) > 0 {
			is.stub = true
		}
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			if strings.HasPrefix(key, corefileKey) {
				is.config, is.keys = m, append(is.keys, key)
			}
		}
	}
	if is.config == nil {
		return nil, fmt.Errorf("DaemonSet %s answers the DNS queries of pods, and has no ConfigMap with a Corefile; let it forward %s to CoreDNS where that file is made", is.set, Zone)
	}
	return is, nil
}

// served reports whether the zone is forwarded as a zone of the cluster is.
func (l *nodeLocal) served(own []string) bool {
	return l.stub || !slices.ContainsFunc(l.keys, func(key string) bool { return !Forwarded(l.config.Data[key], own) })
}

// change returns the change of all Corefiles.
func (l *nodeLocal) change(edit func(string) (string, error)) (Change, error) {
	all := Change{Object: objectOf(l.config)}
	changed := l.config.DeepCopy()
	all.apply = func(ctx context.Context, to *client.Client) error { return update(ctx, to, changed) }
	for _, key := range l.keys {
		text, err := edit(l.config.Data[key])
		if err != nil {
			return Change{}, fmt.Errorf("%s: %s: %w", all.Object, key, err)
		}
		all.Diff += diff(all.Object+" "+key, changed.Data[key], text) // nothing, if they are equal
		changed.Data[key] = text
	}
	return all, nil
}

// Plugins of NodeLocal DNSCache that decide where queries go, at which addresses it receives
// them, and when it reads a changed Corefile: the last of them applies to all server blocks.
const (
	forwardPlugin = "forward"
	bindPlugin    = "bind"
	reloadPlugin  = "reload"
)

// ownBlockOf returns the server block of one of the cluster's own zones, and that zone.
func (c *corefile) ownBlockOf(own []string) (b serverBlock, zone string, ok bool) {
	for _, b := range c.blocks {
		for _, key := range b.keys {
			if of, _ := address(key.text); slices.Contains(own, of) && len(b.named(forwardPlugin)) > 0 {
				return b, of, true
			}
		}
	}
	return serverBlock{}, "", false
}

// targets returns where a server block forwards queries of a zone.
func (b serverBlock) targets(zone string) (all []string) {
	for _, d := range b.named(forwardPlugin) {
		if len(d.arguments) == 0 {
			continue
		}
		if from, _ := address(d.arguments[0].text); within(zone, from) {
			for _, to := range d.arguments[1:] {
				all = append(all, to.text)
			}
		}
	}
	return all
}

// binds returns the addresses at which a server block receives queries; "" stands for all that
// no other server block binds.
func (b serverBlock) binds() (all []string) {
	for _, d := range b.named(bindPlugin) {
		for _, at := range d.arguments {
			all = append(all, at.text)
		}
	}
	if len(all) == 0 {
		return []string{""}
	}
	return all
}

// answering returns the server block that answers queries of the zone at an address and a
// port: that of the longest zone.
func (c *corefile) answering(at, port string) (best serverBlock) {
	longest := -1
	for _, b := range c.blocks {
		if !slices.Contains(b.binds(), at) {
			continue
		}
		for _, key := range b.keys {
			if zone, p := address(key.text); p == port && within(Zone, zone) && len(zone) > longest {
				best, longest = b, len(zone)
			}
		}
	}
	return best
}

// Forwarded reports whether a Corefile forwards the zone to where it forwards one of the
// cluster's own zones, at all addresses where it receives queries of that zone.
func Forwarded(text string, own []string) bool {
	c, err := parse(text)
	if err != nil {
		return false
	}
	of, zone, ok := c.ownBlockOf(own)
	if !ok {
		return false
	}
	_, port := address(of.keys[0].text)
	return !slices.ContainsFunc(of.binds(), func(at string) bool {
		return !slices.Equal(c.answering(at, port).targets(Zone), of.targets(zone))
	})
}

// forwardBlock returns the server block that forwards the zone as a Corefile forwards one of
// the cluster's own zones.
func forwardBlock(text string, own []string) (string, error) {
	c, err := parse(text)
	if err != nil {
		return "", err
	}
	of, zone, ok := c.ownBlockOf(own)
	if !ok {
		return "", fmt.Errorf("no server block forwards %s; add a server block that forwards %s to CoreDNS", strings.Join(own, " or "), Zone)
	}
	_, port := address(of.keys[0].text)
	var b strings.Builder
	b.WriteString(addedComment + Zone + ":" + port + " {\n    errors\n    cache 30\n")
	for _, d := range of.plugins {
		if !slices.Contains([]string{forwardPlugin, bindPlugin, reloadPlugin}, d.name.text) {
			continue
		}
		if d.odd || d.name.text == forwardPlugin && len(d.arguments) == 0 {
			return "", fmt.Errorf("line %d: the format of plugin %s is not supported; add a server block that forwards %s to CoreDNS", d.name.line, d.name.text, Zone)
		}
		arguments := d.arguments
		if d.name.text == forwardPlugin {
			from, _ := address(arguments[0].text)
			if !within(zone, from) {
				continue // it forwards other names
			}
			arguments = append([]token{{text: "."}}, arguments[1:]...)
		}
		b.WriteString("    " + words(d.name, arguments))
		if len(d.properties) > 0 {
			b.WriteString(" {\n")
			for _, line := range d.properties {
				b.WriteString("        " + words(line[0], line[1:]) + "\n")
			}
			b.WriteString("    }")
		}
		b.WriteString("\n")
	}
	b.WriteString("}\n")
	return b.String(), nil
}

func words(first token, rest []token) string {
	all := []string{first.text}
	for _, t := range rest {
		all = append(all, t.text)
	}
	return strings.Join(all, " ")
}

// ConfigureForward returns the Corefile of a NodeLocal DNSCache with which it forwards the zone
// as one of the cluster's own zones. A text that does already is returned unchanged. A server
// block that was added before, when that zone was forwarded differently, is replaced. The error
// of a text that cannot be changed safely says what to do.
func ConfigureForward(text string, own []string) (string, error) {
	if Forwarded(text, own) {
		return text, nil
	}
	text = RemoveForward(text)
	block, err := forwardBlock(text, own)
	if err != nil {
		return "", err
	}
	if _, err := parseFree(text); err != nil {
		return "", err
	}
	configured := text + "\n" + block
	if !Forwarded(configured, own) {
		return "", fmt.Errorf("a server block for %s has no effect in this file; forward the zone to CoreDNS by hand", Zone)
	}
	return configured, nil
}

// RemoveForward returns a Corefile without the server block that ConfigureForward added. Any
// other text is returned unchanged.
func RemoveForward(text string) string {
	before, rest, found := strings.Cut(text, "\n"+addedComment+Zone+":")
	_, after, closed := strings.Cut(rest, "\n}\n")
	if !found || !closed {
		return text
	}
	return before + after
}
