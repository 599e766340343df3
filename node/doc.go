// Package node configures a node's kernel to send the traffic for other clusters to the
// gateways, and repairs that configuration when it changes.
//
//	Desired ──target──► State ─┐
//	                           ├─ Plan ──► []Operation ──► Kernel
//	kernel ──Observe──► State ─┘
//
// Plan is a pure function. Kernel reads and changes the kernel over netlink with
// CAP_NET_ADMIN only: it runs no program and writes no file, so a container with a
// read-only file system and no other privilege is enough. If the kernel has neither Geneve
// nor VXLAN, this process serves TAP devices instead (package userspace), for which it also
// needs /dev/net/tun. Keep repeats the cycle when the desired state changes or another
// program changed the kernel's state.
//
// # What belongs to Strait
//
// Nothing else is read as Strait's, changed or removed:
//
//   - links named cni-strait and five letters or digits, with all their configuration. The
//     last five are a hash of what the kernel requires to be unique among such links and cannot
//     change in place. A gateway with a new address therefore gets a second Geneve link, and
//     its nexthop moves to it before the first link is deleted. A TAP device only gets another
//     remote address, because this process sends its frames.
//   - nexthops of protocol 91 with IDs from 0x50000000 to 0x53ffffff: one to each gateway in each
//     address family, and one group for each set of gateways that serves the same prefixes, over
//     which the kernel spreads flows. The group is resilient where the kernel has that (Linux
//     5.12): a flow keeps its gateway while that is in use.
//   - routes of protocol 91 in table 6091. Each prefix of another cluster has two: one to a
//     group of nexthops, and a blackhole of higher metric. The kernel deletes the nexthops of a
//     link that goes down, and a group with its last nexthop. Then the blackhole drops the
//     packets; they never follow the default route. Before Linux 5.3 there are no nexthops, and
//     the routes are multipath routes.
//   - a rule of protocol 91 and priority 105 per address family, which looks up that table
//     before all others except the local one. One lookup serves any number of prefixes, works
//     next to the rules of CNIs (Amazon's begin at 512, but at 10 for security groups for pods in
//     strict mode; Cilium's for ENIs begin at 110; Cilium moves the local table to 100), and survives a flush of the main table.
//   - the nftables table inet strait, see Sources.
//
// The rule precedes the routes of other programs. So a prefix of another cluster that
// overlaps a destination which another program routes is not routed at all; see Takeover.
//
// Reverse path filters are loose on these links: while routes move, packets from one
// gateway still arrive on the link of another.
//
// # Other platforms
//
// On other platforms than Linux the package has only the plain data that agents on nodes
// send to the operator's commands: Inspection, Way, Encapsulation, and the names of what
// belongs to Strait.
package node
