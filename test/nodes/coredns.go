package nodes

import (
	"context"
	"debug/buildinfo"
	_ "embed"
	"errors"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// coreDNSObjects are the objects of CoreDNS. It runs from the machine's directory of
// programs, because a copy in an image would take the memory of each node that has it.
//
//go:embed coredns.yaml
var coreDNSObjects string

// coreDNSImage returns the name of the image of CoreDNS, a name of Busybox with the version
// of the program as its tag.
func (l *Lab) coreDNSImage() (string, error) {
	info, err := buildinfo.ReadFile(filepath.Join(l.programs, "coredns"))
	if err != nil {
		return "", err
	}
	return "strait.test/coredns:" + info.Main.Version, nil
}

// createDNS creates the objects of CoreDNS.
func (c *Cluster) createDNS() error {
	image, err := c.lab.coreDNSImage()
	if err != nil {
		return err
	}
	return c.create(c.lab.ctx, strings.NewReplacer("IMAGE", image, "PROGRAMS", c.lab.programs, "ADDRESS", c.families[0].dns).Replace(coreDNSObjects))
}

// dnsReady returns when CoreDNS is ready.
func (c *Cluster) dnsReady() error {
	return until(c.lab.ctx, c.nodes[0].kubelet, "CoreDNS of "+c.name+" is ready", func(ctx context.Context) error {
		is, err := c.api.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		if err == nil && is.Status.ReadyReplicas == 0 {
			err = errors.New("no replica is ready")
		}
		return err
	})
}
