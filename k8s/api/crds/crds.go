// Package crds embeds the CustomResourceDefinitions of package v1alpha1 as YAML files. They
// are generated from that package.
package crds

import "embed"

// Files contains one YAML file for each custom resource.
//
//go:embed *.yaml
var Files embed.FS
