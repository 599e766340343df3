// Package node makes a node's kernel send to the gateways what is for other clusters,
// and keeps it so.
//
//	Desired ──target──► State ─┐
//	                           ├─ Plan ──► []Operation ──► Kernel
//	kernel ──Observe──► State ─┘
//
// Plan is a function of data. Kernel reads and changes the kernel over netlink with
// CAP_NET_ADMIN and nothing else: no program is called and no file is written, so that
// a read-only container without further privileges is enough. Where the kernel has
// neither Geneve nor VXLAN, TAP devices stand in, which this process serves (package
// userspace); for them it needs /dev/net/tun too. Keep runs the circle whenever what is
// desired changes or somebody else changed what is ours.
//
// # What is ours
//
// Nothing else is ever read as ours, changed or removed:
//
//   - links named strait- and eight hexadecimal digits, with everything on them. The
//     digits stand for what the kernel wants to be unique among such links and does not
//     change in place. So a gateway with a new address gets a second Geneve link, to
//     which the routes move before the first one goes. A TAP device just gets another
//     remote address: where its frames go is a matter of this process.
//   - routes of protocol 91 in table 6091. Each prefix of another cluster has two: one
//     to a link, and behind it a blackhole of higher metric. Without a link the packets
//     end in the blackhole; they never follow the default route.
//   - a rule of protocol 91 and priority 105 for each address family, which looks into
//     that table before all others but the local one. It is one lookup whatever the
//     number of prefixes, it works where a CNI has rules of its own (Amazon's begin at
//     512, Cilium's for ENIs at 110; Cilium moves the local table to 100), and flushing
//     the main table does not touch it.
//   - the nftables table inet strait, see Sources.
//
// Reverse path filters are loose on our links: while routes move, packets of one
// gateway still arrive on the link of another.
package node
