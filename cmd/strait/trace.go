package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/trace"
)

type traceFlags struct {
	local, remote                   clusterFlags
	to, from, protocol, output      string
	size                            int
	gatewayNamespace, nodeNamespace string
	service                         trace.ServiceName // the destination, if it is a name
	socket, question                string
	fromTunnel                      bool
}

var protocols = []string{gateway.TCP, gateway.UDP, gateway.ICMP}

func newTrace() *cobra.Command {
	f := &traceFlags{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "trace NAMESPACE/POD -> DESTINATION[:PORT]",
		Short: "Explain the path and the verdict of a packet",
		Long: `Explain what happens to a packet from a pod to an address of another cluster, and to the
reply: at the pod, its node, the gateways, the tunnel, and the other cluster's node and
pod. No packet is sent: the command asks kernels and gateways what they would do. It runs
strait in their pods, which takes the right to create pods/exec.

With access to the other cluster (--remote-context) the packet is followed to the pod;
without, it is followed up to the tunnel and the reply from there. Quote the arrow for
the shell, or leave it out.

The destination is an address, or the name of an imported Service: then a packet is
traced to one endpoint in each remote cluster that exports the Service.

With --socket only the gateway of that socket is asked, on its own machine, and the
source of the packet is an ADDRESS instead of a pod.

The exit code is 0 if the packet and its reply are delivered, and 1 if one of them is
dropped or its verdict is unknown.`,
		Example: `  strait trace 'default/web -> 10.71.2.9:80' --remote-context b
  strait trace default/web 10.71.2.9:80 --protocol udp --size 1500
  strait trace default/web --to 10.71.2.9 -o json
  strait trace default/web cart.shop.svc.clusterset.local:80 --remote-context b
  strait trace --socket /run/strait.sock 10.0.1.5 10.71.2.9:80`,
		Args: cobra.ArbitraryArgs,
		RunE: f.run,
	}
	f.local.register(c)
	f.remote.register(c)
	flags := c.Flags()
	flags.StringVar(&f.to, "to", "", "destination, instead of the second argument")
	flags.StringVar(&f.from, "from-address", "", "source of the packet (default: the pod's own address of the same IP family)")
	flags.StringVar(&f.protocol, "protocol", "", "tcp, udp or icmp (default: tcp if the destination has a port, else icmp)")
	flags.IntVar(&f.size, "size", 0, "size of the IP packet in bytes; 0 for a packet without payload")
	flags.StringVar(&f.gatewayNamespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	flags.StringVar(&f.nodeNamespace, "node-namespace", install.NodeNamespace, "namespace of the node helpers")
	flags.StringVar(&f.socket, "socket", "", "ask only the gateway that listens on this unix socket")
	flags.BoolVar(&f.fromTunnel, "from-tunnel", false, "with --socket: the packet arrives through the tunnel, not from a node")
	flags.StringVar(&f.question, "question", "", "with --socket: the question as JSON; the answer is JSON too")
	completeValues(c, "protocol", protocols)
	outputFlag(c, &f.output)
	flags.BoolP("arrow", ">", false, "the arrow between the arguments")
	for _, name := range []string{"question", "arrow"} {
		_ = flags.MarkHidden(name) // fails only for an unknown flag
	}
	return c
}

func (f *traceFlags) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if f.question != "" {
		return f.relay(ctx, cmd.OutOrStdout())
	}
	if f.fromTunnel && f.socket == "" {
		return wrongUsage(cmd, "--from-tunnel needs --socket: name the socket of a gateway")
	}
	from, q, err := f.read(args)
	named := f.service != trace.ServiceName{}
	if err == nil && f.socket == "" && !named {
		err = q.Check()
	}
	if err == nil && f.socket != "" && named {
		err = errors.New("--socket takes an address as destination: a gateway does not know the names of Services")
	}
	if err != nil {
		return wrongUsage(cmd, "%w", err)
	}
	if f.socket == "" {
		return f.follow(ctx, cmd, from, q)
	}
	r, err := f.single(ctx, cmd, from, q)
	if err != nil {
		return err
	}
	return f.print(cmd, r, r.Verdict, func(w io.Writer) error { return trace.Table(w, r) })
}

// print writes a report. It returns an error if the packet is not delivered.
func (f *traceFlags) print(cmd *cobra.Command, report any, verdict trace.Verdict, table func(io.Writer) error) error {
	if err := printReport(cmd, f.output, report, table); err != nil {
		return err
	}
	switch verdict {
	case trace.Dropped:
		return errors.New("the packet is dropped: see the verdict above")
	case trace.Unknown:
		return errors.New("the verdict on the packet is unknown: see the reason above")
	}
	return nil
}

// follow traces the packet in the clusters, or packets to the endpoints of an imported Service,
// and prints the report.
func (f *traceFlags) follow(ctx context.Context, cmd *cobra.Command, from string, q trace.Question) error {
	var ok bool
	if q.Namespace, q.Pod, ok = strings.Cut(from, "/"); !ok || q.Namespace == "" || q.Pod == "" {
		return wrongUsage(cmd, "%q is not NAMESPACE/POD: write the pod like default/web", from)
	}
	progress := newProgress(cmd)
	defer progress.Done()
	near, far, err := openBoth(ctx, &f.local, &f.remote)
	if err != nil {
		return err
	}
	local, err := f.side(ctx, near, progress)
	if err != nil {
		return err
	}
	var remote *trace.Side
	if far != nil {
		if remote, err = f.side(ctx, *far, progress); err != nil {
			return err
		}
	}
	if f.service == (trace.ServiceName{}) {
		r, err := trace.Run(ctx, q, local, remote, time.Now())
		if err != nil {
			return err
		}
		progress.Done()
		return f.print(cmd, r, r.Verdict, func(w io.Writer) error { return trace.Table(w, r) })
	}
	service, err := trace.ReadService(ctx, near, f.service)
	if err != nil {
		return err
	}
	r, err := trace.RunService(ctx, service, q, local, remote, time.Now())
	if err != nil {
		return err
	}
	progress.Done()
	return f.print(cmd, r, r.Verdict, func(w io.Writer) error { return trace.ServiceTable(w, r) })
}

func (f *traceFlags) side(ctx context.Context, c operator.Cluster, progress *operator.Progress) (*trace.Side, error) {
	return trace.Open(ctx, c, &trace.Pods{
		Client: c.Client, Exec: c.Client.Exec, GatewayNamespace: f.gatewayNamespace, NodeNamespace: f.nodeNamespace, Say: progress.Say,
	})
}

// single traces the packet in the gateway of the socket.
func (f *traceFlags) single(ctx context.Context, cmd *cobra.Command, from string, q trace.Question) (*trace.Report, error) {
	var err error
	if q.From, err = netip.ParseAddr(from); err != nil {
		return nil, wrongUsage(cmd, "%q is not an IP address: with --socket, write the source like 10.0.1.5", from)
	}
	question := localsocket.TraceQuestion{Probe: q.Probe(), FromTunnel: f.fromTunnel}
	if err := question.Probe.Check(); err != nil {
		return nil, wrongUsage(cmd, "%w", err)
	}
	a, err := localsocket.AskTrace(ctx, f.socket, question)
	if err != nil {
		return nil, err
	}
	return trace.Single(question, a, time.Now()), nil
}

// relay sends the question to the gateway of the socket and prints the answer.
func (f *traceFlags) relay(ctx context.Context, w io.Writer) error {
	var q localsocket.TraceQuestion
	if err := json.Unmarshal([]byte(f.question), &q); err != nil {
		return fmt.Errorf("--question: %w", err)
	}
	a, err := localsocket.AskTrace(ctx, f.socket, q)
	if err != nil {
		return err
	}
	return printAs(w, "json", a)
}

// read parses the arguments: the source, and the packet.
func (f *traceFlags) read(args []string) (from string, q trace.Question, err error) {
	var words []string
	for _, arg := range args {
		words = append(words, strings.Fields(strings.ReplaceAll(arg, "->", " "))...)
	}
	if slices.Contains(words, "-") {
		return "", q, errors.New("the -> is not quoted, and the shell redirected the output to a file named after the destination: write 'default/web -> 10.71.2.9:80', or leave the arrow out")
	}
	if f.to != "" {
		words = append(words, f.to)
	}
	switch {
	case len(words) == 0:
		return "", q, errors.New("the pod is missing: write it like default/web")
	case len(words) == 1:
		return "", q, errors.New("the destination is missing: write it like 10.71.2.9:80")
	case len(words) > 2:
		return "", q, fmt.Errorf("%q is one argument too many", words[2])
	}
	q.Size, q.Protocol = f.size, f.protocol
	if f.service, q.Port, err = serviceDestination(words[1]); err != nil {
		return "", q, err
	}
	named := f.service != trace.ServiceName{}
	if !named {
		if q.To, q.Port, err = destination(words[1]); err != nil {
			return "", q, err
		}
	}
	if q.Protocol != "" && !slices.Contains(protocols, q.Protocol) {
		return "", q, fmt.Errorf("--protocol %s: choose %s", q.Protocol, choice(protocols))
	}
	switch {
	case q.Protocol != "":
	case q.Port == 0:
		q.Protocol = gateway.ICMP
	case !named: // the port of a Service has a protocol
		q.Protocol = gateway.TCP
	}
	if (q.Port == 0) != (q.Protocol == gateway.ICMP) {
		return "", q, fmt.Errorf("%s to %s: write a port for tcp and udp, as in 10.71.2.9:80, and none for icmp", q.Protocol, words[1])
	}
	if f.from != "" {
		if q.From, err = netip.ParseAddr(f.from); err != nil {
			return "", q, fmt.Errorf("--from-address %s: is not an IP address; write one like 10.0.1.5", f.from)
		}
	}
	return words[0], q, nil
}

// destination parses an address with or without a port.
func destination(text string) (netip.Addr, uint16, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return a.Unmap(), 0, nil
	}
	if a, err := netip.ParseAddrPort(text); err == nil && a.Addr().Zone() == "" && a.Port() != 0 {
		return a.Addr().Unmap(), a.Port(), nil
	}
	host, _, _ := strings.Cut(text, ":")
	parts := strings.Split(host, ".")
	switch {
	case len(parts) > 2 && parts[2] == "svc": // NAME.NAMESPACE.svc of one cluster
		return netip.Addr{}, 0, fmt.Errorf("%q is the name of a Service of one cluster: for an imported Service write %s.%s.svc.%s, for another one an address like 10.71.2.9:80", text, parts[0], parts[1], services.Zone)
	case strings.ContainsAny(host, "ghijklmnopqrstuvwxyz"): // a name, not a wrong address
		return netip.Addr{}, 0, fmt.Errorf("%q is neither an address nor the name of an imported Service: write one like 10.71.2.9:80 or cart.shop.svc.%s:80", text, services.Zone)
	}
	return netip.Addr{}, 0, fmt.Errorf("%q is not an IP address with a port: write one like 10.71.2.9:80 or [fd00:71::9]:80, or the name of an imported Service like cart.shop.svc.%s:80", text, services.Zone)
}

// serviceDestination parses the name of an imported Service with or without a port. The name
// is empty if the text is something else.
func serviceDestination(text string) (name trace.ServiceName, port uint16, err error) {
	host, number, has := strings.Cut(text, ":")
	name, ok := trace.ParseServiceName(host)
	if !ok || !has {
		return name, 0, nil
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 {
		return name, 0, fmt.Errorf("%s: %q is not a port; write one like %s:80", text, number, host)
	}
	return name, uint16(n), nil
}
