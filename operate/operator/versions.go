package operator

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/columns"
	"strait.dev/strait/k8s/install"
)

// Versions are those of the parts of Strait in one cluster.
type Versions struct {
	Cluster string        `json:"cluster"` // as in Cluster
	Parts   []PartVersion `json:"parts"`   // controller, node helpers, gateways, agents of offloading; then by name
}

// PartVersion is the version that the pods of one workload are to run, and how many do.
type PartVersion struct {
	Component string `json:"component"` // label of the workload
	Name      string `json:"name"`      // of the workload
	Version   string `json:"version"`
	Image     string `json:"image"`
	Pods      int32  `json:"pods"`    // wanted
	Updated   int32  `json:"updated"` // of them, those of this version
	Ready     int32  `json:"ready"`   // of them, of any version
}

var components = []string{install.Controller, install.Node, install.Gateway, install.Borrower, install.Lender}

// ReadVersions reads the versions of the parts of Strait that are installed.
func ReadVersions(ctx context.Context, c Cluster) (*Versions, error) {
	v := &Versions{Cluster: c.Name, Parts: []PartVersion{}}
	mine := metav1.ListOptions{LabelSelector: install.NameLabel + "=" + install.Name}
	deployments, err := List(ctx, c, "Deployments", c.Client.Deployments(""), mine)
	if err != nil {
		return nil, err
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		v.add(&d.ObjectMeta, &d.Spec.Template, PartVersion{Pods: wanted(d.Spec.Replicas), Updated: d.Status.UpdatedReplicas, Ready: d.Status.ReadyReplicas})
	}
	daemons, err := List(ctx, c, "DaemonSets", c.Client.DaemonSets(""), mine)
	if err != nil {
		return nil, err
	}
	for i := range daemons.Items {
		d := &daemons.Items[i]
		v.add(&d.ObjectMeta, &d.Spec.Template, PartVersion{Pods: d.Status.DesiredNumberScheduled, Updated: d.Status.UpdatedNumberScheduled, Ready: d.Status.NumberReady})
	}
	sets, err := List(ctx, c, "StatefulSets", c.Client.StatefulSets(""), mine)
	if err != nil {
		return nil, err
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		v.add(&s.ObjectMeta, &s.Spec.Template, PartVersion{Pods: wanted(s.Spec.Replicas), Updated: s.Status.UpdatedReplicas, Ready: s.Status.ReadyReplicas})
	}
	slices.SortStableFunc(v.Parts, func(a, b PartVersion) int {
		return cmp.Or(cmp.Compare(slices.Index(components, a.Component), slices.Index(components, b.Component)), cmp.Compare(a.Name, b.Name))
	})
	return v, nil
}

// add adds a workload, unless it is none of Strait's programs.
func (v *Versions) add(of *metav1.ObjectMeta, template *corev1.PodTemplateSpec, p PartVersion) {
	p.Component, p.Name = of.Labels[install.ComponentLabel], of.Name
	i := slices.IndexFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == p.Component })
	if i < 0 || !slices.Contains(components, p.Component) {
		return
	}
	p.Image = template.Spec.Containers[i].Image
	p.Version = versionOf(p.Image, of.Labels["app.kubernetes.io/version"])
	v.Parts = append(v.Parts, p)
}

// wanted returns the number of replicas, whose default is 1.
func wanted(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// versionOf returns the tag of an image. An image without one that is named by its digest has
// the version of the chart, or else the digest.
func versionOf(image, chart string) string {
	_, digest, pinned := strings.Cut(image, "@")
	if tag := install.Tag(image); tag != "" || !pinned {
		return cmp.Or(tag, "latest")
	}
	return cmp.Or(chart, digest)
}

// VersionsTable writes versions as text.
func VersionsTable(w io.Writer, all []*Versions) error {
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "\n%s", v.Cluster)
		if len(v.Parts) == 0 {
			b.WriteString(": Strait is not installed\n")
			continue
		}
		b.WriteByte('\n')
		var table columns.Table
		table.Row("PART", "NAME", "VERSION", "UPDATED", "READY")
		for _, p := range v.Parts {
			table.Row(p.Component, p.Name, p.Version, fmt.Sprintf("%d/%d", p.Updated, p.Pods), fmt.Sprintf("%d/%d", p.Ready, p.Pods))
		}
		_, _ = table.WriteTo(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
