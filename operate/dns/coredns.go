package dns

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// minVersion is the first version of CoreDNS that serves imported Services.
var minVersion = version.MustParseGeneric("1.12.2")

// Options select the DNS server of a cluster.
type Options struct {
	Namespace  string // of CoreDNS
	Deployment string // of CoreDNS; empty: the one with the label k8s-app=kube-dns
	Version    string // of CoreDNS; empty: from its image, or from its metrics
}

// CoreDNS is the DNS server of a cluster.
type CoreDNS struct {
	Namespace  string
	Deployment string
	Account    string           // its service account
	Version    *version.Version // nil: not known
	corefile   *corev1.ConfigMap
	key        string            // of the Corefile in corefile
	locals     []*nodeLocal      // which answer pods in its place
	custom     *corev1.ConfigMap // with server blocks that the Corefile imports; nil: none; without a UID: not created yet
}

// customKey is the key of a server block in CoreDNS.custom.
const customKey = "strait.server"

func (c *CoreDNS) text() string { return c.corefile.Data[c.key] }

// Find returns the CoreDNS of a cluster. The error for a cluster whose DNS server cannot be
// configured says what to do instead.
func Find(ctx context.Context, c *client.Client, o Options) (*CoreDNS, error) {
	d, err := findDeployment(ctx, c, o)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return strings.Contains(c.Image, "coredns") || slices.Contains(c.Args, "-conf") || slices.Contains(c.Command, "-conf")
	})
	if i < 0 {
		return nil, findStubDomains(ctx, c, d.Namespace, d.Name)
	}
	container := d.Spec.Template.Spec.Containers[i]
	is := &CoreDNS{Namespace: d.Namespace, Deployment: d.Name, Account: d.Spec.Template.Spec.ServiceAccountName}
	if is.Account == "" {
		is.Account = "default"
	}
	if err := is.findCorefile(ctx, c, d, container); err != nil {
		return nil, err
	}
	if is.locals, err = findNodeLocal(ctx, c, d.Namespace); err != nil {
		return nil, err
	}
	is.Version, err = findVersion(ctx, c, o, d, container)
	return is, err
}

func findDeployment(ctx context.Context, c *client.Client, o Options) (*appsv1.Deployment, error) {
	if o.Deployment != "" {
		d, err := c.Deployments(o.Namespace).Get(ctx, o.Deployment, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read Deployment %s/%s: %w; set --coredns-namespace and --coredns-deployment", o.Namespace, o.Deployment, err)
		}
		return d, nil
	}
	list, err := c.Deployments(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		return nil, fmt.Errorf("list Deployments of %s: %w", o.Namespace, err)
	}
	switch len(list.Items) {
	case 1:
		return &list.Items[0], nil
	case 0:
		return nil, errNone(ctx, c, o.Namespace)
	}
	return nil, fmt.Errorf("%d Deployments in %s have the label k8s-app=kube-dns; choose CoreDNS with --coredns-deployment", len(list.Items), o.Namespace)
}

// errNone returns the error for a cluster without a Deployment of CoreDNS.
func errNone(ctx context.Context, c *client.Client, namespace string) error {
	if _, err := c.DaemonSets("openshift-dns").Get(ctx, "dns-default", metav1.GetOptions{}); err == nil {
		return fmt.Errorf("the DNS operator of OpenShift reverts changes of its CoreDNS; run another CoreDNS for %s, "+
			"and forward the zone to it with spec.servers of dns.operator/default: see docs/how-to/services-dns.md", Zone)
	}
	return fmt.Errorf("no Deployment in %s has the label k8s-app=kube-dns; set --coredns-namespace and --coredns-deployment to those of CoreDNS. "+
		"If the provider runs the DNS server outside of the cluster, forward %s to a CoreDNS in it: see docs/how-to/services-dns.md", namespace, Zone)
}

// findCorefile reads the ConfigMaps with the Corefile and with what it imports.
func (c *CoreDNS) findCorefile(ctx context.Context, from *client.Client, d *appsv1.Deployment, container corev1.Container) error {
	file := "/etc/coredns/Corefile"
	for _, words := range [][]string{container.Command, container.Args} {
		if i := slices.Index(words, "-conf"); i >= 0 && i+1 < len(words) {
			file = words[i+1]
		}
	}
	source, key := mounted(d.Spec.Template.Spec, container, file)
	if source == nil {
		return fmt.Errorf("%s of Deployment %s/%s is not from a ConfigMap; add the zone %s to the plugin kubernetes where that file is made", file, d.Namespace, d.Name, Zone)
	}
	var err error
	if c.corefile, err = from.ConfigMaps(d.Namespace).Get(ctx, source.Name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", d.Namespace, source.Name, err)
	}
	if c.key = key; c.text() == "" {
		return fmt.Errorf("ConfigMap %s/%s has no key %s", d.Namespace, source.Name, key)
	}
	parsed, err := parse(c.text())
	if err != nil {
		return nil // reported where the Corefile is changed
	}
	for _, pattern := range parsed.imports {
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(file), pattern)
		}
		at := path.Join(path.Dir(pattern), customKey)
		if matches, err := path.Match(pattern, at); err != nil || !matches {
			continue
		}
		if source, _ := mounted(d.Spec.Template.Spec, container, at); source != nil {
			return c.readCustom(ctx, from, source.Name)
		}
	}
	return nil
}

// readCustom reads the ConfigMap with imported server blocks. Distributions that support it
// leave its creation to users.
func (c *CoreDNS) readCustom(ctx context.Context, from *client.Client, name string) (err error) {
	c.custom, err = from.ConfigMaps(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.custom, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}, nil
	}
	if err != nil {
		return fmt.Errorf("read ConfigMap %s/%s: %w", c.Namespace, name, err)
	}
	return nil
}

// mounted returns the ConfigMap and its key that a container sees as a file, nil if the file
// is not from a ConfigMap.
func mounted(pod corev1.PodSpec, container corev1.Container, file string) (source *corev1.ConfigMapVolumeSource, key string) {
	for _, m := range container.VolumeMounts {
		if m.MountPath != file && path.Clean(m.MountPath) != path.Dir(file) {
			continue
		}
		for _, v := range pod.Volumes {
			if v.Name != m.Name || v.ConfigMap == nil {
				continue
			}
			for _, item := range v.ConfigMap.Items {
				if item.Path == path.Base(file) {
					return v.ConfigMap, item.Key
				}
			}
			return v.ConfigMap, path.Base(file)
		}
	}
	return nil, ""
}

// findVersion returns the version of CoreDNS, nil if it cannot be determined.
func findVersion(ctx context.Context, c *client.Client, o Options, d *appsv1.Deployment, container corev1.Container) (*version.Version, error) {
	if o.Version != "" {
		v, err := version.ParseGeneric(o.Version)
		if err != nil {
			return nil, fmt.Errorf("--coredns-version %s: %w; give it as in --coredns-version=1.12.2", o.Version, err)
		}
		return v, nil
	}
	if v, err := version.ParseGeneric(install.Tag(container.Image)); err == nil {
		return v, nil
	}
	return askVersion(ctx, c, d), nil
}

var buildInfo = regexp.MustCompile(`(?m)^coredns_build_info\{[^}]*\bversion="([^"]*)"`)

// askVersion returns the version in the metrics of a running CoreDNS, nil if none answers.
func askVersion(ctx context.Context, c *client.Client, d *appsv1.Deployment) *version.Version {
	list, err := c.Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector), Limit: 10})
	if err != nil {
		return nil
	}
	for _, pod := range list.Items {
		page, err := c.Raw(ctx, fmt.Sprintf("/api/v1/namespaces/%s/pods/http:%s:9153/proxy/metrics", pod.Namespace, pod.Name))
		if err != nil {
			continue
		}
		if m := buildInfo.FindSubmatch(page); m != nil {
			if v, err := version.ParseGeneric(string(m[1])); err == nil {
				return v
			}
		}
	}
	return nil
}

// Supported returns nil if CoreDNS has the version to serve the zone. An older version does
// not start with such a Corefile.
func (c *CoreDNS) Supported() error {
	switch {
	case c.Version == nil:
		return errors.New("the version of CoreDNS is not known, neither from its image nor from its metrics; give it with --coredns-version")
	case c.Version.LessThan(minVersion):
		return fmt.Errorf("CoreDNS is %s; upgrade it to %s or later, the first version that serves imported Services", c.Version, minVersion)
	}
	return nil
}

// Served reports whether CoreDNS is configured to serve the zone, by its Corefile or by a
// server block that this imports.
func (c *CoreDNS) Served() bool {
	if Served(c.text()) {
		return true
	}
	if c.custom != nil {
		for name, text := range c.custom.Data {
			if path.Ext(name) == path.Ext(customKey) && Served(text) {
				return true
			}
		}
	}
	return false
}

// ownZones returns the zones that CoreDNS serves for the cluster itself.
func (c *CoreDNS) ownZones() (own []string) {
	parsed, err := parse(c.text())
	if err == nil {
		for _, b := range parsed.blocks {
			for _, d := range b.kubernetes() {
				for _, argument := range d.arguments {
					if of, _ := address(argument.text); of != Zone && !strings.HasSuffix(of, "arpa") {
						own = append(own, of)
					}
				}
			}
		}
	}
	if len(own) == 0 {
		own = []string{"cluster.local"}
	}
	return own
}

// unforwarded returns the NodeLocal DNSCaches that do not forward the zone to CoreDNS.
func (c *CoreDNS) unforwarded() (all []*nodeLocal) {
	for _, l := range c.locals {
		if !l.served(c.ownZones()) {
			all = append(all, l)
		}
	}
	return all
}

// reloads reports whether CoreDNS reads a changed Corefile without a restart.
func (c *CoreDNS) reloads() bool {
	parsed, err := parse(c.text())
	return err == nil && slices.ContainsFunc(parsed.blocks, func(b serverBlock) bool {
		return len(b.named(reloadPlugin)) > 0
	})
}
