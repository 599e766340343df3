// Package gateway is a gateway that follows the objects of its cluster: it watches
// them, translates them into a configuration, and applies that. It says in the status
// of its Peering what it is and how its links are doing.
//
// An API server that is away, slow or wrong about its own age changes nothing: the
// gateway goes on with what it has for any length of time. It keeps a copy of the
// configuration in force, and begins with that when it is started again. The copy has
// no age limit: it lives in the gateway's pod and ends with it, and the first answer
// of the API server replaces it. An object that is deleted, in contrast, is withdrawn
// at once: without its Peering a gateway has no nodes, no peers and no grants.
//
// What a gateway needs to be granted is in package rbac.
package gateway
