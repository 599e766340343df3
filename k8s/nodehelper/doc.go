// Package nodehelper makes a node of a cluster follow its objects: what the Peerings,
// the ClusterNetwork and the node's own NodeAttachment ask for becomes a node.Desired,
// and what came of it becomes the status of the NodeAttachment.
//
// While the API server is away, everything stays as it is. When the helper ends,
// everything stays as it is too, in the kernel, and the next one goes on from there:
// restarts and upgrades lose no packet with the kernel's links. Links in userspace pause
// while no helper serves them.
//
// A peering without a usable gateway has its ranges dropped. A range that is withdrawn
// is dropped for a while before it means what it meant without Strait.
package nodehelper
