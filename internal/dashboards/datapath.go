package main

// datapath shows gateways in detail: forwarded and dropped packets, queues, CPU and memory.
var datapath = dashboard{
	uid: "strait-datapath", title: "Strait / Data path",
	description: "Gateways in detail: packets, drops by reason, queues, CPU and memory.",
	variables: []variable{
		{name: "cluster", label: "Cluster", metric: "strait_controller_leader"},
		{name: "peering", label: "Peering", metric: `strait_link_up{cluster=~"$cluster"}`},
		{name: "gateway", label: "Gateway", metric: `strait_link_up{cluster=~"$cluster", peering=~"$peering"}`},
	},
	rows: []row{
		{"Packets", []panel{
			{title: "Forwarded", kind: lines, unit: packets, width: 12, height: 8,
				description: "egress: from nodes into the tunnel. ingress: from the tunnel to nodes. host: sent by the gateway itself.",
				queries:     []query{{`sum by (gateway, direction) (rate(strait_packets_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{direction}}"}}},
			{title: "Bits", kind: lines, unit: bits, width: 12, height: 8,
				description: "Bits of the packets inside the tunnel.",
				queries:     []query{{`sum by (gateway, direction) (rate(strait_bytes_total{` + those + `}[$__rate_interval])) * 8`, "{{gateway}} {{direction}}"}}},
			{title: "Mean size", kind: lines, unit: bytes1024, width: 12, height: 7,
				description: "The cost of a packet hardly depends on its size, so the packet rate limits a gateway.",
				queries:     []query{{`sum by (direction) (rate(strait_bytes_total{` + those + `}[$__rate_interval])) / sum by (direction) (rate(strait_packets_total{` + those + `}[$__rate_interval]) > 0)`, "{{direction}}"}}},
			{title: "WireGuard", kind: lines, unit: bits, width: 12, height: 7,
				description: "Bits of encrypted datagrams, including probes and handshakes.",
				queries: []query{
					{`sum by (gateway) (rate(strait_wireguard_sent_bytes_total{` + those + `}[$__rate_interval])) * 8`, "{{gateway}} sent"},
					{`sum by (gateway) (rate(strait_wireguard_received_bytes_total{` + those + `}[$__rate_interval])) * 8`, "{{gateway}} received"},
				}},
		}},
		{"Drops", []panel{
			{title: "Dropped, by reason", kind: lines, unit: packets, width: 12, height: 9, stacked: true,
				description: "docs/reference/metrics.md explains each reason. The ten most frequent.",
				queries:     []query{{`topk(10, sum by (direction, reason) (rate(strait_dropped_packets_total{` + those + `}[$__rate_interval])) > 0)`, "{{direction}} {{reason}}"}}},
			{title: "Share dropped", kind: lines, unit: share, width: 12, height: 9,
				description: "Share of all packets that arrived at the gateway.",
				queries:     []query{{`sum by (gateway, direction) (rate(strait_dropped_packets_total{` + those + `}[$__rate_interval])) / (sum by (gateway, direction) (rate(strait_dropped_packets_total{` + those + `}[$__rate_interval])) + sum by (gateway, direction) (rate(strait_packets_total{` + those + `}[$__rate_interval])) > 0)`, "{{gateway}} {{direction}}"}}},
			{title: "Queue overflow", kind: lines, unit: packets, width: 8, height: 8,
				description: "Datagrams that the kernel dropped because the gateway did not read fast enough, and datagrams that did not fit into the queue of a link.",
				queries: []query{
					{`sum by (gateway, socket) (rate(strait_receive_queue_overflow_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{socket}}"},
					{`sum by (gateway) (rate(strait_wireguard_dropped_datagrams_total{` + those + `, reason="link_queue"}[$__rate_interval]))`, "{{gateway}} link"},
				}},
			{title: "WireGuard datagrams dropped", kind: lines, unit: packets, width: 8, height: 8,
				description: "unknown_link: belongs to no link. initiation_rate: too many handshake initiations. link_queue: the queue is full. send: rejected by the kernel.",
				queries:     []query{{`sum by (gateway, reason) (rate(strait_wireguard_dropped_datagrams_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{reason}}"}}},
			{title: "ICMP errors", kind: lines, unit: packets, width: 8, height: 8,
				description: "ICMP errors about dropped packets that were sent, and those suppressed by the rate limit.",
				queries: []query{
					{`sum by (direction) (rate(strait_icmp_errors_sent_total{` + those + `}[$__rate_interval]))`, "{{direction}} sent"},
					{`sum by (direction) (rate(strait_icmp_errors_suppressed_total{` + those + `}[$__rate_interval]))`, "{{direction}} suppressed"},
				}},
		}},
		{"Cost", []panel{
			{title: "CPU", kind: lines, unit: processors, width: 12, height: 8,
				description: "CPU cores in use.",
				queries:     []query{{`rate(process_cpu_seconds_total[$__rate_interval])` + ofThose, "{{gateway}}"}}},
			{title: "Memory", kind: lines, unit: share, width: 12, height: 8,
				description: "Share of the memory limit of the container. At 100 % the kernel kills the process.",
				queries:     []query{{`process_resident_memory_bytes / go_gc_gomemlimit_bytes` + ofThose, "{{gateway}}"}}},
		}},
		{"Configuration", []panel{
			{title: "Nodes and routes", kind: lines, unit: count, width: 8, height: 8,
				description: "Entries of the forwarding table. All gateways of a cluster have the same nodes.",
				queries: []query{
					{`max by (gateway) (strait_nodes{` + those + `})`, "{{gateway}} nodes"},
					{`max by (gateway) (strait_routes{` + those + `})`, "{{gateway}} routes"},
				}},
			{title: "Configurations applied", kind: lines, unit: perSecond, width: 8, height: 8,
				description: "error: the previous configuration stays in effect; the log has the reason.",
				queries:     []query{{`sum by (gateway, result) (rate(strait_config_reloads_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{result}}"}}},
			{title: "Left out", kind: lines, unit: count, width: 8, height: 8,
				description: "Parts of objects that gateways leave out; the log has the reasons.",
				queries:     []query{{`max by (gateway) (strait_config_problems{` + those + `})`, "{{gateway}}"}}},
			{title: "API server answers", kind: timeline, unit: unitless, width: 12, height: 7, states: true,
				description: "Forwarding does not depend on it, configuration changes do.",
				queries:     []query{{`max by (gateway) (strait_api_server_up{` + those + `})`, "{{gateway}}"}}},
			{title: "Started", kind: table, unit: "dateTimeAsIso", width: 12, height: 7,
				description: "Start time of each gateway.",
				queries:     []query{{`max by (gateway) (strait_start_time_seconds{` + those + `}) * 1000`, "started"}}},
		}},
	},
}

const (
	// those selects the gateways chosen in the variables.
	those = `cluster=~"$cluster", peering=~"$peering", gateway=~"$gateway"`
	// ofThose restricts process metrics, which have no labels of Strait, to these gateways.
	ofThose = ` * on (cluster, job, namespace, instance) group_left (peering, gateway) (strait_start_time_seconds{` + those + `} > bool 0)`
)
