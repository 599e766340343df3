// Package nodehelper makes a node follow its objects: it translates the Peerings, the
// ClusterNetwork and the node's own NodeAttachment into a node.Desired, and writes the
// result to the status of the NodeAttachment.
//
// While the API server is unreachable, nothing changes. When the helper stops, its kernel
// configuration stays, and the next helper continues from it: restarts and upgrades lose no
// packet with kernel links. Userspace links pause while no helper runs.
//
// Packets to the CIDRs of a peering without a usable gateway are dropped. A withdrawn CIDR
// is dropped for some time before the node's other routes apply to it again.
package nodehelper
