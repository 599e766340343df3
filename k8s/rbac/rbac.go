// Package rbac contains the RBAC rules and admission policies of Strait's programs, as YAML
// documents. Tests run each program with exactly these rules.
package rbac

import _ "embed"

// The chart has copies of the files, because Helm cannot read files outside of its
// directory.
//
//go:generate sh -c "cp *.yaml ../../charts/strait/files/rbac/"

// Controller contains the rules of `strait controller`: a ClusterRole, and a Role in its own
// namespace, in that of the gateways and in default. All are named strait-controller, except
// those for the Multi-Cluster Services API: strait-controller-services. A Role without a
// namespace belongs to the controller's namespace. There is none in kube-system, because
// managed clusters may allow no writes there.
//
//go:embed controller.yaml
var Controller []byte

// Gateway contains the rules of `strait gateway`: a ClusterRole, and a Role in the
// gateways' namespace. It grants no access to Secrets: keys are mounted.
//
//go:embed gateway.yaml
var Gateway []byte

// Node contains the ClusterRole of `strait node`.
//
//go:embed node.yaml
var Node []byte

// Admission contains the ValidatingAdmissionPolicies, with their bindings, that limit each
// gateway and node helper to the objects of its own pod or node, and the controller to the
// Services and EndpointSlices of imports, and that keep a Peering over which pods are offloaded.
// Their service accounts are those of the chart. They need Kubernetes 1.30, which adds the name
// of the node to tokens.
//
//go:embed admission.yaml
var Admission []byte

// Uninstall contains the rules of `strait uninstall --prepare`: a ClusterRole, and a Role
// in the gateways' namespace.
//
//go:embed uninstall.yaml
var Uninstall []byte

// Verify contains the rules of `strait verify --short`: a ClusterRole, and a Role in the
// gateways' namespace.
//
//go:embed verify.yaml
var Verify []byte
