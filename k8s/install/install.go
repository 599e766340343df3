// Package install contains the names of an installation's parts, shared by the chart, which
// creates it (charts/strait), the controller, which runs gateways in it, and the commands
// that look for its parts.
package install

import "strings"

// Default namespaces of the installation.
const (
	Namespace        = "strait-system"
	GatewayNamespace = "strait-gateways"
	NodeNamespace    = "strait-nodes"
)

// Image is the image of the chart of this version. The linker sets it in builds of the
// Makefile, to an image of the same version in the repository of the build; no code changes it.
var Image = "strait.dev/strait:0.1.0"

// Tag returns the tag of an image, empty if it has none.
func Tag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	return tag
}

// Labels of all objects of an installation.
const (
	NameLabel      = "app.kubernetes.io/name" // Name, on all of them
	Name           = "strait"
	ComponentLabel = "app.kubernetes.io/component" // one of the components
)

// Components. Strait's container in the pods of a component has its name.
const (
	Controller = "controller"
	Gateway    = "gateway"
	Node       = "node" // node helper
	Borrower   = "borrower"
	Lender     = "lender"
)

// Paths in pods.
const (
	Binary     = "/strait"
	CacheDir   = "/var/cache/strait" // of a gateway
	SocketName = "strait.sock"       // of a gateway's local socket, in its cache directory
	Socket     = CacheDir + "/" + SocketName
)

// TCP ports of health checks and metrics.
const (
	HTTPPort     = 8080
	HealthPort   = 8081 // of gateways: health alone, for load balancers
	NodeHTTPPort = 6093 // in the host network
)

// FirstServicePort to LastServicePort are the TCP and UDP ports of gateways that stand for
// imported Services, in a cluster without node helpers.
const (
	FirstServicePort = 20000
	LastServicePort  = 29999
)

// ControllerName is the name of the controller's Deployment and of its lease.
const ControllerName = "strait-controller"

// Selector returns the label selector of a component.
func Selector(component string) string {
	return NameLabel + "=" + Name + "," + ComponentLabel + "=" + component
}
