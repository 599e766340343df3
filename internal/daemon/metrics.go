package daemon

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/gateway"
	"strait.dev/strait/relay"
	"strait.dev/strait/tun"
)

// rttHistogram has the round-trip times of link probes, by link. Safe for concurrent use.
type rttHistogram struct {
	*prometheus.HistogramVec

	mu     sync.Mutex
	series map[string]bool // by name of the link
}

func newRTTHistogram() *rttHistogram {
	return &rttHistogram{series: make(map[string]bool), HistogramVec: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "strait_link_rtt_seconds",
		Help: "Round-trip time of probes between the gateways of a link, through the tunnel.",
		// 100 µs to 3.3 s: from the same machine to the opposite side of the planet with a full queue.
		Buckets: prometheus.ExponentialBuckets(100e-6, 2, 16),
	}, []string{"peer"})}
}

func (h *rttHistogram) observe(link string, rtt time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.series[link] = true
	h.WithLabelValues(link).Observe(rtt.Seconds())
}

// retain ends the series of all other links: the remote cluster chooses their names, and can
// change them.
func (h *rttHistogram) retain(links []tun.LinkStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.series {
		if !slices.ContainsFunc(links, func(l tun.LinkStatus) bool { return l.Name == name }) {
			delete(h.series, name)
			h.DeleteLabelValues(name)
		}
	}
}

var (
	packetsDesc    = describe("packets_total", "IP packets forwarded.", "direction")
	bytesDesc      = describe("bytes_total", "Bytes of IP packets forwarded.", "direction")
	droppedDesc    = describe("dropped_packets_total", "Packets dropped, by reason.", "direction", "reason")
	errorsDesc     = describe("icmp_errors_sent_total", "ICMP errors sent about dropped packets.", "direction")
	nodeProbesDesc = describe("node_probes_answered_total", "Probes of nodes that were answered.")
	suppressedDesc = describe("icmp_errors_suppressed_total", "ICMP errors not sent because of the rate limit.", "direction")

	upDesc        = describe("link_up", "1 unless three link probes in a row are unanswered, and no packets arrive or none was answered for 5 s.", "peer")
	activeDesc    = describe("link_active", "1 for each link that carries traffic from nodes.", "peer")
	shareDesc     = describe("link_share", "Share of the flows from nodes that are directed to the link.", "peer")
	linkPackets   = describe("link_packets_total", "IP packets forwarded, by link.", "peer", "direction")
	linkBytes     = describe("link_bytes_total", "Bytes of IP packets forwarded, by link.", "peer", "direction")
	pathDesc      = describe("link_path_mtu_bytes", "The inner MTU if a packet of that size has reached the far end within the last 15 s, else 0.", "peer")
	probesDesc    = describe("link_probes_sent_total", "Link probes sent.", "peer")
	lostDesc      = describe("link_probes_lost_total", "Link probes of the remote gateway that did not arrive while the link was up.", "peer")
	receivedDesc  = describe("wireguard_received_bytes_total", "Bytes of WireGuard datagrams received.", "peer")
	sentDesc      = describe("wireguard_sent_bytes_total", "Bytes of WireGuard datagrams sent.", "peer")
	rejectedDesc  = describe("wireguard_rejected_handshakes_total", "Handshake messages that WireGuard rejected.", "peer")
	handshakeDesc = describe("wireguard_handshake_age_seconds", "Time since the last handshake; absent before the first.", "peer")

	datagramsDesc = describe("wireguard_dropped_datagrams_total", "WireGuard datagrams dropped outside of WireGuard, by reason.", "reason")
	overflowDesc  = describe("receive_queue_overflow_total", "Datagrams the kernel dropped because the gateway did not read fast enough; several that it had coalesced count as one.", "socket")
	failuresDesc  = describe("receive_failures_total", "System calls that failed to receive datagrams.", "socket")
	mtuDesc       = describe("inner_mtu_bytes", "Largest IP packet that the whole path carries.")
	nodesDesc     = describe("nodes", "Nodes in the table.")
	routesDesc    = describe("routes", "Local prefixes and addresses in the table.")
	flowsDesc     = describe("masquerade_flows", "Current masqueraded flows.")
	maxFlowsDesc  = describe("masquerade_max_flows", "Maximum number of masqueraded flows.")
	portsDesc     = describe("masquerade_ports", "External ports and ICMP identifiers of masqueraded flows, by state.", "state")
	eventsDesc    = describe("masquerade_flows_total", "Masqueraded flows, by event.", "event")
	fragmentsDesc = describe("fragment_bytes", "Memory used by fragments of incomplete datagrams.", "direction")
	mappingDescs  = describeRelay("mapping", "to mapped addresses")
	proxyDescs    = describeRelay("proxy", "to proxied pods")
	forwardDescs  = describeRelay("forward", "of forwards")
	relayEchoDesc = describe("mapping_pings_total", "Pings to mapped addresses, by result.", "result")

	gapsDesc    = describe("process_gaps_total", "How often the process did not run for more than 0.5 s.")
	longestDesc = describe("process_longest_gap_seconds", "The longest time that the process did not run; 0 if none was longer than 0.5 s.")
	leftOutDesc = describe("log_lines_left_out_total", "Log lines suppressed by the rate limit for similar lines.")
	startedDesc = describe("start_time_seconds", "Start time of the gateway, in seconds since the epoch.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("strait_"+name, help, labels, nil)
}

// relayDescs describe the statistics of mapped addresses, of the proxy, or of forwards.
type relayDescs struct{ open, opened, refused, bytes, expired, evicted, lost, strays *prometheus.Desc }

func describeRelay(name, of string) relayDescs {
	return relayDescs{
		open:    describe(name+"_connections", "Current TCP connections and UDP sessions "+of+".", "protocol"),
		opened:  describe(name+"_connections_total", "TCP connections and UDP sessions "+of+" that were established.", "protocol"),
		refused: describe(name+"_refused_total", "TCP connections and UDP sessions "+of+" that were not established, by reason.", "protocol", "reason"),
		bytes:   describe(name+"_bytes_total", "Payload bytes of connections and sessions "+of+".", "protocol", "direction"),
		expired: describe(name+"_expired_total", "TCP connections and UDP sessions "+of+" that ended by the idle timeout.", "protocol"),
		evicted: describe(name+"_evicted_total", "Idle TCP connections and UDP sessions "+of+" that ended because a limit was reached.", "protocol"),
		lost:    describe(name+"_lost_datagrams_total", "Datagrams "+of+" that could not be sent to one side.", "protocol"),
		strays:  describe(name+"_stray_segments_total", "TCP segments "+of+", of connections that another gateway may have, that were dropped."),
	}
}

// Describe implements prometheus.Collector.
func (d *Daemon) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(d, to) }

// Collect implements prometheus.Collector. It reads the counters of the packet path. Labels contain names from the
// configuration, never addresses or keys.
func (d *Daemon) Collect(to chan<- prometheus.Metric) {
	counter := func(desc *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	counters := d.fabric.Counters()
	links, egress, ingress := d.totals.read(d.fabric)
	for _, l := range links {
		gauge(upDesc, boolean(l.Up), l.Name)
		gauge(activeDesc, boolean(l.Active), l.Name)
		gauge(shareDesc, l.Share, l.Name)
		for direction, c := range map[string]*gateway.Counters{"egress": l.Egress, "ingress": l.Ingress} {
			packets, bytes := c.Forwarded()
			counter(linkPackets, packets, l.Name, direction)
			counter(linkBytes, bytes, l.Name, direction)
		}
		gauge(pathDesc, float64(l.PathMTU), l.Name)
		counter(probesDesc, l.ProbesSent, l.Name)
		counter(lostDesc, l.ProbesLost, l.Name)
		counter(receivedDesc, l.Received, l.Name)
		counter(sentDesc, l.Sent, l.Name)
		counter(rejectedDesc, l.Rejected, l.Name)
		if !l.LastHandshake.IsZero() {
			gauge(handshakeDesc, time.Since(l.LastHandshake).Seconds(), l.Name)
		}
	}
	for direction, s := range map[string]total{"egress": egress, "ingress": ingress, "host": sum([]*gateway.Counters{counters.Host})} {
		counter(packetsDesc, s.packets, direction)
		counter(bytesDesc, s.bytes, direction)
		if direction == "egress" {
			counter(nodeProbesDesc, s.probes)
		}
		counter(errorsDesc, s.answers, direction)
		counter(suppressedDesc, s.suppressed, direction)
		for r := range gateway.Reasons {
			counter(droppedDesc, s.dropped[r], direction, r.String())
		}
	}
	datagrams := counters.WireGuard
	counter(overflowDesc, counters.Overlay.Overflows, "overlay")
	counter(overflowDesc, datagrams.Overflows, "wireguard")
	counter(failuresDesc, counters.Overlay.ReceiveFailures, "overlay")
	counter(failuresDesc, datagrams.ReceiveFailures, "wireguard")
	counter(datagramsDesc, datagrams.Unknown, "unknown_link")
	counter(datagramsDesc, datagrams.Initiations, "initiation_rate")
	counter(datagramsDesc, datagrams.NewSenders, "new_senders")
	counter(datagramsDesc, datagrams.InboxFull, "link_queue")
	counter(datagramsDesc, datagrams.SendFailures, "send")

	if f := d.fabric.Gateway.Flows(); f != nil {
		s := f.Stats(time.Now())
		gauge(flowsDesc, float64(s.Flows))
		gauge(maxFlowsDesc, float64(s.MaxFlows))
		gauge(portsDesc, float64(s.Mappings), "used")
		gauge(portsDesc, float64(s.Resting), "resting")
		gauge(portsDesc, float64(s.Ports-s.Mappings-s.Resting), "free")
		counter(eventsDesc, s.Created, "created")
		counter(eventsDesc, s.Expired, "expired")
		counter(eventsDesc, s.Evicted, "evicted")
		counter(eventsDesc, s.Withdrawn, "withdrawn")
		egress, ingress := f.FragmentBytes()
		gauge(fragmentsDesc, float64(egress), "egress")
		gauge(fragmentsDesc, float64(ingress), "ingress")
	}

	t := d.fabric.Gateway.Table()
	gauge(mtuDesc, float64(t.MTU()))
	gauge(nodesDesc, float64(t.NodeCount()))
	gauge(routesDesc, float64(t.RouteCount()))
	d.collectRelay(counter, gauge)
	counter(gapsDesc, counters.Gaps.Count)
	gauge(longestDesc, counters.Gaps.Longest.Seconds())
	counter(leftOutDesc, d.quiet.leftOut.Load())
	gauge(startedDesc, float64(d.started.UnixMilli())/1e3)
	d.rtt.retain(links) // again: a removed link can have ended a probe late
	d.rtt.Collect(to)
}

func (d *Daemon) collectRelay(counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	collect := func(descs *relayDescs, tcp, udp relay.Stats) {
		for protocol, s := range map[string]relay.Stats{"tcp": tcp, "udp": udp} {
			gauge(descs.open, float64(s.Open), protocol)
			counter(descs.opened, s.Opened, protocol)
			counter(descs.expired, s.Expired, protocol)
			counter(descs.evicted, s.Evicted, protocol)
			counter(descs.lost, s.Lost, protocol)
			counter(descs.bytes, s.ToTarget, protocol, "to_target")
			counter(descs.bytes, s.ToCaller, protocol, "to_caller")
			for i, n := range s.Refused {
				counter(descs.refused, n, protocol, relay.Refusal(i).String())
			}
		}
	}
	tcp, udp := d.fabric.Relay.Mapped()
	collect(&mappingDescs, tcp, udp)
	counter(mappingDescs.strays, tcp.Strays)
	tcp, udp = d.fabric.Relay.Proxied()
	collect(&proxyDescs, tcp, udp)
	counter(proxyDescs.strays, tcp.Strays)
	tcp, udp = d.fabric.Relay.Forwarded()
	collect(&forwardDescs, tcp, udp)
	echo := d.fabric.Relay.Echo()
	counter(relayEchoDesc, echo.Answered, "answered")
	counter(relayEchoDesc, echo.Down, "target_down")
	counter(relayEchoDesc, echo.Refused, "refused")
}

// total is the sum of several counters.
type total struct {
	packets, bytes, answers, suppressed, probes uint64
	dropped                                     map[gateway.Reason]uint64
}

func sum(counters []*gateway.Counters) total {
	t := total{dropped: make(map[gateway.Reason]uint64)}
	for _, c := range counters {
		t.add(c)
	}
	return t
}

func (t *total) add(c *gateway.Counters) {
	packets, bytes := c.Forwarded()
	answers, suppressed := c.Answers()
	t.packets += packets
	t.bytes += bytes
	t.answers += answers
	t.suppressed += suppressed
	t.probes += c.Probes()
	for r := range gateway.Reasons {
		t.dropped[r] += c.Dropped(r)
	}
}

// linkTotals are the totals of all links, including those that have ended since they were read first: Prometheus takes a
// counter that decreases for one that began at 0, and all that it still has for an increase. Safe for concurrent use.
type linkTotals struct {
	mu              sync.Mutex
	egress, ingress growingTotal
}

// read returns the present links, and the totals.
func (t *linkTotals) read(f *tun.Fabric) (links []tun.LinkStatus, egress, ingress total) {
	t.mu.Lock()
	defer t.mu.Unlock()
	links = f.Status()
	out, in := []*gateway.Counters{f.Counters().Fallback}, []*gateway.Counters(nil)
	for _, l := range links {
		out, in = append(out, l.Egress), append(in, l.Ingress)
	}
	return links, t.egress.sum(out), t.ingress.sum(in)
}

// growingTotal is a total of counters of which some end.
type growingTotal struct {
	counted []*gateway.Counters // that had not ended at the last sum
	ended   total
}

func (t *growingTotal) sum(counters []*gateway.Counters) total {
	if t.ended.dropped == nil {
		t.ended = sum(nil)
	}
	for _, c := range t.counted {
		if !slices.Contains(counters, c) {
			t.ended.add(c)
		}
	}
	t.counted = counters
	all := t.ended
	all.dropped = maps.Clone(all.dropped)
	for _, c := range counters {
		all.add(c)
	}
	return all
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
