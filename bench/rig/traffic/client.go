package traffic

import (
	"fmt"
	"io"
	"net/netip"
	"net/rpc"
	"time"
)

// Client is the rig's side of an end. Safe for concurrent use.
type Client struct{ rpc *rpc.Client }

// NewClient connects to the end at the other side of a pipe, which it owns.
func NewClient(pipe io.ReadWriteCloser) *Client { return &Client{rpc.NewClient(pipe)} }

// Close stops the end.
func (c *Client) Close() error { return c.rpc.Close() }

// call calls a method; errors contain its name.
func call[R any](c *Client, method string, args any) (reply R, err error) {
	if err = c.rpc.Call("End."+method, args, &reply); err != nil {
		err = fmt.Errorf("%s: %w", method, err)
	}
	return reply, err
}

// Nothing is the type of missing arguments or replies: gob does not support empty values.
type Nothing bool

// Blast is a request for UDP datagrams at a fixed rate.
type Blast struct {
	To       netip.Addr
	Sizes    []int   // payloads in turn, bytes
	Rate     float64 // datagrams per second
	Duration time.Duration
	Burst    int  // datagrams sent at once; the pace is kept per burst
	Segment  bool // pass batches to the kernel as one message each (UDP_SEGMENT) and receive with GRO, as tunnels do
}

// Sent is the result of a Blast, in datagrams.
type Sent struct {
	Wanted int // at the requested rate
	Sent   int // accepted by the kernel
}

// Blast sends datagrams and returns when they are sent.
func (c *Client) Blast(b Blast) (Sent, error) { return call[Sent](c, "Blast", b) }

// Source is the source of one TCP stream.
type Source struct {
	Address netip.Addr // invalid: chosen by the kernel
	Device  string     // outgoing device; empty: by the routes
}

// Streams is a request for TCP streams that send as fast as possible until StopStreams.
type Streams struct {
	To   netip.Addr
	From []Source // one stream each
}

// StartStreams starts streams that run until StopStreams.
func (c *Client) StartStreams(s Streams) error {
	_, err := call[Nothing](c, "StartStreams", s)
	return err
}

// StopStreams stops all streams of StartStreams, even if that failed.
func (c *Client) StopStreams() error {
	_, err := call[Nothing](c, "StopStreams", Nothing(false))
	return err
}

// Count is what an end has received since it was started.
type Count struct {
	At        time.Duration // on the machine's monotonic clock
	Stream    int64         // bytes over TCP
	Datagrams int64
	Bytes     int64 // in datagrams
	Overflows uint64
}

// Since returns the difference from an earlier count.
func (c Count) Since(before Count) Count {
	return Count{c.At - before.At, c.Stream - before.Stream, c.Datagrams - before.Datagrams, c.Bytes - before.Bytes, c.Overflows - before.Overflows}
}

// Count returns what the end has received so far.
func (c *Client) Count() (Count, error) { return call[Count](c, "Count", Nothing(false)) }

// RoundTrips is a request for requests and responses over TCP: every connection sends the
// next request after the last response.
type RoundTrips struct {
	To          netip.Addr
	Connections int
	Size        int // of a request and of a response, bytes
	Duration    time.Duration
}

// Latencies is the distribution of round-trip times.
type Latencies struct {
	Count                    int
	Elapsed                  time.Duration
	P50, P90, P99, P999, Max time.Duration
}

// RoundTrips measures latency and returns when the duration is over.
func (c *Client) RoundTrips(r RoundTrips) (Latencies, error) {
	return call[Latencies](c, "RoundTrips", r)
}

// Requests is a request for UDP datagrams that are answered, at a rate that does not depend
// on the responses (open loop). All belong to one flow.
type Requests struct {
	To       netip.Addr
	Size     int     // of the payload, bytes; at least MarkLen of bench/traffic
	Rate     float64 // per second
	Duration time.Duration
}

// Responses is the result of Requests.
type Responses struct {
	Wanted    int           // requests that were due
	Latencies Latencies     // from when a request was due until its response arrived
	Late      time.Duration // from when a request was due until it was sent, median
}

// Ask sends requests at a rate and returns when they are answered.
func (c *Client) Ask(q Requests) (Responses, error) { return call[Responses](c, "Ask", q) }

// FirstPackets is a request to measure the round trip of the first packet of a flow, and of
// a later packet of a known flow, in turn.
type FirstPackets struct {
	To       netip.Addr
	Duration time.Duration
}

// FirstPacket is the result of FirstPackets.
type FirstPacket struct {
	New, Known Latencies
	// Extra is the median difference between a new and the known flow, of requests sent one
	// right after the other: drift affects both.
	Extra time.Duration
}

// FirstPackets compares new flows with a known one.
func (c *Client) FirstPackets(f FirstPackets) (FirstPacket, error) {
	return call[FirstPacket](c, "FirstPackets", f)
}

// Connections is a request for TCP connections without data: opened, closed by the other
// end, closed, and then the next, with that many in parallel.
type Connections struct {
	To       netip.Addr
	Parallel int
	Duration time.Duration
}

// Connect opens and closes connections and returns when the duration is over.
func (c *Client) Connect(to Connections) (Latencies, error) {
	return call[Latencies](c, "Connect", to)
}

// Flows is a request for UDP packets over IPv4 at a fixed rate, each of another flow than
// the previous one.
type Flows struct {
	To   netip.Addr
	From netip.Addr // for new flows the first of newAddresses
	// Count is the number of flows in turn, up to portsEach, whose packets the receiving
	// end counts. 0: every packet is the first one of its flow, and is answered.
	Count    int
	Size     int     // of the payload, bytes
	Rate     float64 // packets per second
	Duration time.Duration
}

// FlowsSent is the result of Flows.
type FlowsSent struct {
	Packets  Sent
	Answered int // for new flows
}

// SendFlows sends packets of many flows and returns when they are sent and answered.
func (c *Client) SendFlows(f Flows) (FlowsSent, error) { return call[FlowsSent](c, "SendFlows", f) }
