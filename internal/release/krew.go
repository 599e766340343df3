package main

import (
	"fmt"
	"strings"
)

// krewManifest returns the manifest with which krew, the package manager of kubectl plugins,
// installs the command line as `kubectl strait`.
func krewManifest(o options, programs []program) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: strait
spec:
  version: %s
  homepage: https://%s
  shortDescription: Join the pod networks of clusters
  description: |
    Strait joins the pod networks of Kubernetes clusters over WireGuard, even when they use
    the same pod CIDR. This plugin checks clusters, joins them, shares Services, and traces
    and verifies what crosses between them. It needs Strait in the clusters: a Helm chart.
  caveats: |
    Gateways, kubectl strait demo, and kubectl strait bench without --peering need Linux.
  platforms:
`, o.version, o.source)
	for _, p := range programs {
		fmt.Fprintf(&b, `  - selector:
      matchLabels: {os: %s, arch: %s}
    uri: https://%s/releases/download/%s/%s
    sha256: %s
    bin: %s
    files:
    - {from: %[7]s, to: .}
    - {from: LICENSE, to: .}
`, p.system, p.architecture, o.source, o.version, p.archive, p.sum, p.name())
	}
	return []byte(b.String())
}
