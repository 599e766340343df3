// Package rbac is what each of Strait's programs needs to be granted in a cluster, as
// YAML documents. What one of them cannot do without a rule here, its tests show: they
// run it with these rules and no more.
package rbac

import _ "embed"

// The chart has files of its own, because Helm reads nothing outside of its folder.
//
//go:generate sh -c "cp *.yaml ../../charts/strait/files/rbac/"

// Controller is for `strait controller`: a ClusterRole for what belongs to no namespace,
// a Role in its own namespace, and a Role in each namespace that tells it of the
// cluster. All have the name strait-controller. A Role without a namespace is for the one
// that the controller runs in.
//
//go:embed controller.yaml
var Controller []byte

// Gateway is for `strait gateway`, a ClusterRole. It reads no Secret: its keys are
// mounted.
//
//go:embed gateway.yaml
var Gateway []byte

// Node is for `strait node`, a ClusterRole.
//
//go:embed node.yaml
var Node []byte

// Uninstall is for `strait uninstall --prepare`: a ClusterRole, and a Role in the gateways'
// namespace.
//
//go:embed uninstall.yaml
var Uninstall []byte

// Verify is for `strait verify --short`, a ClusterRole.
//
//go:embed verify.yaml
var Verify []byte
