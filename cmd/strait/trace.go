package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/operator"
	"strait.dev/strait/k8s/trace"
)

// traceFlags holds the flags of `strait trace`.
type traceFlags struct {
	local, remote                   clusterFlags
	to, from, protocol, output      string
	size                            int
	gatewayNamespace, nodeNamespace string
	socket, question                string
	fromTunnel                      bool
}

func newTrace() *cobra.Command {
	f := &traceFlags{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "trace NAMESPACE/POD -> ADDRESS[:PORT]",
		Short: "Explain the path and the verdict of a packet",
		Long: `Explain what happens to a packet from a pod to an address of another cluster, and to the
reply: at the pod, its node, the gateways, the tunnel, and the other cluster's node and
pod. No packet is sent: the command asks kernels and gateways what they would do. It runs
strait in their pods, which takes the right to create pods/exec.

With access to the other cluster (--remote-context) the packet is followed to the pod;
without, it is followed up to the tunnel and the reply from there. Quote the arrow for
the shell, or leave it out.

With --socket only the gateway of that socket is asked, on its own machine, and the
source of the packet is an ADDRESS instead of a pod.

The exit code is 0 if the packet and its reply are delivered, and 1 if one of them is
dropped or its verdict is unknown.`,
		Example: `  strait trace 'default/web -> 10.71.2.9:80' --remote-context b
  strait trace default/web 10.71.2.9:80 --protocol udp --size 1500
  strait trace default/web --to 10.71.2.9 -o json
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
	outputFlag(c, &f.output)
	flags.BoolP("arrow", ">", false, "the arrow between the arguments")
	for _, name := range []string{"question", "arrow"} {
		_ = flags.MarkHidden(name) // fails only for an unknown flag
	}
	return c
}

func (f *traceFlags) run(cmd *cobra.Command, args []string) error {
	if err := checkOutput(cmd, f.output); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	if f.question != "" {
		return f.relay(ctx, cmd.OutOrStdout())
	}
	if f.fromTunnel && f.socket == "" {
		return wrongUsage(cmd, "--from-tunnel needs --socket: name the socket of a gateway")
	}
	from, q, err := f.read(args)
	if err == nil && f.socket == "" {
		err = q.Check()
	}
	if err != nil {
		return wrongUsage(cmd, "%w", err)
	}
	var r *trace.Report
	if f.socket != "" {
		r, err = f.single(ctx, cmd, from, q)
	} else {
		r, err = f.follow(ctx, cmd, from, q)
	}
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), r)
}

// print writes a report. It returns an error if the packet is not delivered.
func (f *traceFlags) print(w io.Writer, r *trace.Report) error {
	write := func(w io.Writer, r *trace.Report) error { return trace.Table(withColors(w), r) }
	if f.output != "table" {
		write = func(w io.Writer, r *trace.Report) error { return printAs(w, f.output, r) }
	}
	if err := write(w, r); err != nil {
		return err
	}
	switch r.Verdict {
	case trace.Dropped:
		return errors.New("the packet is dropped: see the verdict above")
	case trace.Unknown:
		return errors.New("the verdict on the packet is unknown: see the reason above")
	}
	return nil
}

// follow traces the packet in the clusters.
func (f *traceFlags) follow(ctx context.Context, cmd *cobra.Command, from string, q trace.Question) (*trace.Report, error) {
	var ok bool
	if q.Namespace, q.Pod, ok = strings.Cut(from, "/"); !ok || q.Namespace == "" || q.Pod == "" {
		return nil, wrongUsage(cmd, "%q is not NAMESPACE/POD: write the pod like default/web", from)
	}
	progress := operator.NewProgress(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
	defer progress.Done()
	local, err := f.side(ctx, f.local, progress)
	if err != nil {
		return nil, err
	}
	var remote *trace.Side
	if f.remote.given() {
		f.remote.inherit(f.local)
		if remote, err = f.side(ctx, f.remote, progress); err != nil {
			return nil, err
		}
	}
	return trace.Run(ctx, q, local, remote, time.Now())
}

func (f *traceFlags) side(ctx context.Context, cluster clusterFlags, progress *operator.Progress) (*trace.Side, error) {
	c, err := cluster.open()
	if err != nil {
		return nil, err
	}
	pods := &trace.Pods{
		Client: c.Client, Executor: c.Client, GatewayNamespace: f.gatewayNamespace, NodeNamespace: f.nodeNamespace, Say: progress.Say,
	}
	return trace.Open(ctx, c, pods)
}

// single traces the packet in the gateway of the socket.
func (f *traceFlags) single(ctx context.Context, cmd *cobra.Command, from string, q trace.Question) (*trace.Report, error) {
	var err error
	if q.From, err = netip.ParseAddr(from); err != nil {
		return nil, wrongUsage(cmd, "%q is not an IP address: with --socket, write the source like 10.0.1.5", from)
	}
	question := daemon.TraceQuestion{Probe: q.Probe(), FromTunnel: f.fromTunnel}
	if err := question.Probe.Check(); err != nil {
		return nil, wrongUsage(cmd, "%w", err)
	}
	a, err := daemon.AskTrace(ctx, f.socket, question)
	if err != nil {
		return nil, err
	}
	return trace.Single(question, a, time.Now()), nil
}

// relay sends the question to the gateway of the socket and prints the answer.
func (f *traceFlags) relay(ctx context.Context, w io.Writer) error {
	var q daemon.TraceQuestion
	if err := json.Unmarshal([]byte(f.question), &q); err != nil {
		return fmt.Errorf("--question: %w", err)
	}
	a, err := daemon.AskTrace(ctx, f.socket, q)
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
	q.Size = f.size
	if q.To, q.Port, err = destination(words[1]); err != nil {
		return "", q, err
	}
	if q.Protocol = f.protocol; q.Protocol == "" {
		q.Protocol = gateway.TCP
		if q.Port == 0 {
			q.Protocol = gateway.ICMP
		}
	}
	if !slices.Contains([]string{gateway.TCP, gateway.UDP, gateway.ICMP}, q.Protocol) {
		return "", q, fmt.Errorf("--protocol %s: choose tcp, udp or icmp", q.Protocol)
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
	return netip.Addr{}, 0, fmt.Errorf("%q is not an IP address with a port: write one like 10.71.2.9:80 or [fd00:71::9]:80", text)
}
