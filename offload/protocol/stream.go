package protocol

import (
	"net/url"
	"slices"
)

// Streams of a pod. Their names are those of the subresources in the Kubernetes API.
const (
	Log         = "log"
	Exec        = "exec"
	Attach      = "attach"
	PortForward = "portforward"
)

// parameters are the query parameters of each stream, with the names of the Kubernetes API. One
// that makes the API server trust a kubelet without a valid certificate is not among them.
var parameters = map[string][]string{
	Log:         {"container", "follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream"},
	Exec:        {"container", "command", "stdin", "stdout", "stderr", "tty"},
	Attach:      {"container", "stdin", "stdout", "stderr", "tty"},
	PortForward: {"ports"},
}

var repeated = []string{"command", "ports"}

// Streams are the names of all streams.
var Streams = []string{Log, Exec, Attach, PortForward}

// StreamPath returns the path of a stream of the pod with this UID.
func StreamPath(uid, stream string) string { return PodsPath + uid + "/" + stream }

// Parameters returns the parameters of a stream that a query has. Everything else is left out.
func Parameters(stream string, query url.Values) url.Values {
	only := make(url.Values)
	for _, name := range parameters[stream] {
		values := query[name]
		if !slices.Contains(repeated, name) {
			values = values[:min(1, len(values))]
		}
		if len(values) > 0 {
			only[name] = values
		}
	}
	return only
}
