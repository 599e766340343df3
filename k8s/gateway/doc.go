// Package gateway runs a gateway that follows the objects of its cluster: it watches them,
// translates them into a configuration, and applies it. It writes its own state, the state
// of its links, and what the remote cluster announced to its GatewayReport.
//
// It offers the ExportedServices of its cluster to the remote cluster. While the controller
// has chosen it as the receiver of its Peering, it writes what the remote cluster exports to
// ReceivedServices, within the limits of the Peering. It writes nothing else.
//
// The gateway continues with its last configuration for any length of time while the API
// server is unreachable, slow, or returns stale data. It caches the configuration in
// effect, and starts with the cached copy after a restart. The copy has no age limit: it is
// stored in the gateway's pod and deleted with it, and the first response of the API server
// replaces it. A deleted object, in contrast, is withdrawn at once: without its Peering a
// gateway has no nodes, no peers and no grants.
//
// The RBAC rules of a gateway are in package rbac.
package gateway
