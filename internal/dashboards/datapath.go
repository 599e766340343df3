package main

// datapath is the inside of gateways: what they forward, what they drop and why, and what
// that costs.
var datapath = dashboard{
	uid: "strait-datapath", title: "Strait / Data path",
	description: "Gateways from inside: packets, drops by reason, queues, CPU and memory.",
	variables: []variable{
		{name: "cluster", label: "Cluster", metric: "strait_controller_leader"},
		{name: "peering", label: "Peering", metric: `strait_link_up{cluster=~"$cluster"}`},
		{name: "gateway", label: "Gateway", metric: `strait_link_up{cluster=~"$cluster", peering=~"$peering"}`},
	},
	rows: []row{
		{"Packets", []panel{
			{title: "Forwarded", kind: lines, unit: packets, width: 12, height: 8,
				description: "egress: from nodes into the tunnel. ingress: from the tunnel to nodes. host: the gateway's own.",
				queries:     []query{{`sum by (gateway, direction) (rate(strait_packets_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{direction}}"}}},
			{title: "Bits", kind: lines, unit: bits, width: 12, height: 8,
				description: "Bits of the packets inside the tunnel.",
				queries:     []query{{`sum by (gateway, direction) (rate(strait_bytes_total{` + those + `}[$__rate_interval])) * 8`, "{{gateway}} {{direction}}"}}},
			{title: "Mean size", kind: lines, unit: bytes1024, width: 12, height: 7,
				description: "Small packets cost as much as large ones: it is packets that a gateway runs out of.",
				queries:     []query{{`sum by (direction) (rate(strait_bytes_total{` + those + `}[$__rate_interval])) / sum by (direction) (rate(strait_packets_total{` + those + `}[$__rate_interval]) > 0)`, "{{direction}}"}}},
			{title: "WireGuard", kind: lines, unit: bits, width: 12, height: 7,
				description: "Bits of encrypted datagrams, probes and handshakes among them.",
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
				description: "Of all packets that came to the gateway.",
				queries:     []query{{`sum by (gateway, direction) (rate(strait_dropped_packets_total{` + those + `}[$__rate_interval])) / (sum by (gateway, direction) (rate(strait_dropped_packets_total{` + those + `}[$__rate_interval])) + sum by (gateway, direction) (rate(strait_packets_total{` + those + `}[$__rate_interval])) > 0)`, "{{gateway}} {{direction}}"}}},
			{title: "Did not fit into a queue", kind: lines, unit: packets, width: 8, height: 8,
				description: "Datagrams that the kernel dropped because the gateway did not read fast enough, and those that came faster than a link took them.",
				queries: []query{
					{`sum by (gateway, socket) (rate(strait_receive_queue_overflow_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{socket}}"},
					{`sum by (gateway) (rate(strait_wireguard_dropped_datagrams_total{` + those + `, reason="link_queue"}[$__rate_interval]))`, "{{gateway}} link"},
				}},
			{title: "WireGuard datagrams dropped", kind: lines, unit: packets, width: 8, height: 8,
				description: "unknown_link belongs to no link, initiation_rate asks for too many handshakes, link_queue came too fast, send the kernel did not take.",
				queries:     []query{{`sum by (gateway, reason) (rate(strait_wireguard_dropped_datagrams_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{reason}}"}}},
			{title: "ICMP errors", kind: lines, unit: packets, width: 8, height: 8,
				description: "What senders were told of dropped packets, and what they were not told because of the rate limit.",
				queries: []query{
					{`sum by (direction) (rate(strait_icmp_errors_sent_total{` + those + `}[$__rate_interval]))`, "{{direction}} sent"},
					{`sum by (direction) (rate(strait_icmp_errors_suppressed_total{` + those + `}[$__rate_interval]))`, "{{direction}} suppressed"},
				}},
		}},
		{"Cost", []panel{
			{title: "CPU", kind: lines, unit: processors, width: 12, height: 8,
				description: "Processors in use.",
				queries:     []query{{`rate(process_cpu_seconds_total[$__rate_interval])` + ofThose, "{{gateway}}"}}},
			{title: "Memory", kind: lines, unit: share, width: 12, height: 8,
				description: "Of the limit of the gateway's container. At 100 % the kernel ends it.",
				queries:     []query{{`process_resident_memory_bytes / go_gc_gomemlimit_bytes` + ofThose, "{{gateway}}"}}},
		}},
		{"Configuration", []panel{
			{title: "Nodes and routes", kind: lines, unit: count, width: 8, height: 8,
				description: "In the gateway's table. All gateways of a cluster have the same nodes.",
				queries: []query{
					{`max by (gateway) (strait_nodes{` + those + `})`, "{{gateway}} nodes"},
					{`max by (gateway) (strait_routes{` + those + `})`, "{{gateway}} routes"},
				}},
			{title: "Configurations applied", kind: lines, unit: perSecond, width: 8, height: 8,
				description: "error: the one before stays in force; the log says why.",
				queries:     []query{{`sum by (gateway, result) (rate(strait_config_reloads_total{` + those + `}[$__rate_interval]))`, "{{gateway}} {{result}}"}}},
			{title: "Left out", kind: lines, unit: count, width: 8, height: 8,
				description: "Parts of objects that gateways leave out; the log has the reasons.",
				queries:     []query{{`max by (gateway) (strait_config_problems{` + those + `})`, "{{gateway}}"}}},
			{title: "API server answers", kind: timeline, unit: unitless, width: 12, height: 7, states: true,
				description: "Gateways do not need it to forward, but to learn what is new.",
				queries:     []query{{`max by (gateway) (strait_api_server_up{` + those + `})`, "{{gateway}}"}}},
			{title: "Started", kind: table, unit: "dateTimeAsIso", width: 12, height: 7,
				description: "When each gateway started.",
				queries:     []query{{`max by (gateway) (strait_start_time_seconds{` + those + `}) * 1000`, "started"}}},
		}},
	},
}

const (
	// those are the gateways that the viewer chooses.
	those = `cluster=~"$cluster", peering=~"$peering", gateway=~"$gateway"`
	// ofThose keeps what the process says of itself, which does not know what it is, for them.
	ofThose = ` * on (cluster, job, namespace, instance) group_left (peering, gateway) (strait_start_time_seconds{` + those + `} > bool 0)`
)
