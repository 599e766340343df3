// Package install is what the parts of an installation are called: by the chart, which
// makes it (charts/strait), by the controller, which runs gateways in it, and by the
// commands that look for its parts.
package install

// Namespaces, unless the installation chose others.
const (
	Namespace        = "strait-system"
	GatewayNamespace = "strait-gateways"
	NodeNamespace    = "strait-nodes"
)

// Image is that of the chart of this version.
const Image = "strait.dev/strait:0.1.0"

// Labels of pods and of everything around them.
const (
	NameLabel      = "app.kubernetes.io/name" // Name, on all of them
	Name           = "strait"
	ComponentLabel = "app.kubernetes.io/component" // one of the components
)

// Components. The container of Strait in a component's pods has its name.
const (
	Controller = "controller"
	Gateway    = "gateway"
	Node       = "node" // a node's helper
)

// Inside of pods.
const (
	Binary     = "/strait"
	CacheDir   = "/var/cache/strait" // of a gateway
	SocketName = "strait.sock"       // of a gateway's local socket, in its cache folder
	Socket     = CacheDir + "/" + SocketName
)

// Where health and metrics are served, TCP.
const (
	HTTPPort     = 8080
	NodeHTTPPort = 6093 // in the network of the node
)

// ControllerName is that of the controller's Deployment and of its lease.
const ControllerName = "strait-controller"

// Selector selects what belongs to a component.
func Selector(component string) string {
	return NameLabel + "=" + Name + "," + ComponentLabel + "=" + component
}
