// Package crds holds the CustomResourceDefinitions of package v1alpha1 as the files
// that are applied to a cluster. They are generated; see there.
package crds

import "embed"

// Files has one YAML file for each kind.
//
//go:embed *.yaml
var Files embed.FS
