package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/capture"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/operator"
)

// captureFlags are what `strait capture` is told.
type captureFlags struct {
	cluster   clusterFlags
	namespace string // of gateways
	socket    string
	request   daemon.CaptureRequest
	duration  time.Duration
	output    string
	untilEOF  bool // end with the standard input: how another strait, far away, ends this one
}

func newCapture() *cobra.Command {
	var f captureFlags
	c := &cobra.Command{
		Use:   "capture [PEERING|GATEWAY] [FILTER]",
		Short: "Record packets inside a gateway, as a file for Wireshark",
		Long: `Record packets inside a gateway, without a privilege there or here.

Stages, of which several may be named:
  inner      IP packets as the pods of this cluster send and receive them
  tunnel     IP packets as they cross the tunnel, translated and not encrypted
  overlay    Geneve or VXLAN between nodes and the gateway
  wireguard  encrypted datagrams between the gateways

FILTER is what tcpdump takes: host, net, port, portrange, with src or dst; tcp, udp,
icmp, icmp6, ip, ip6; less, greater; and, or, not, parentheses. In the stages overlay
and wireguard it is about the outer packet.

The file has the packets with everything that is in them, also what crosses the tunnel
encrypted. It is written until --duration or --packets is over, or Ctrl-C.`,
		Example: `  strait capture b -o b.pcapng --duration 30s 'host 10.71.2.9 and tcp port 80'
  strait capture b --stage inner,tunnel -o - icmp or icmp6 | wireshark -k -i -
  strait capture --socket /run/strait.sock --stage wireguard -o wg.pcapng`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	c.Flags().StringVar(&f.namespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().StringVar(&f.socket, "socket", "", "unix socket of a gateway on this machine, instead of one in a cluster")
	c.Flags().StringSliceVar(&f.request.Stages, "stage", []string{"inner"}, "where to look: "+strings.Join(daemon.CaptureStages, ", "))
	c.Flags().DurationVar(&f.duration, "duration", 0, "how long (default: until Ctrl-C)")
	c.Flags().IntVar(&f.request.Packets, "packets", 0, "how many packets at most (default: any number)")
	c.Flags().IntVar(&f.request.Snap, "snap", 0, "how many bytes of each packet at most (default: all)")
	c.Flags().StringVarP(&f.output, "output", "o", "", "file to write, or - for standard output")
	c.Flags().BoolVar(&f.untilEOF, "until-eof", false, "")
	_ = c.Flags().MarkHidden("until-eof")
	_ = c.RegisterFlagCompletionFunc("stage", cobra.FixedCompletions(daemon.CaptureStages, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// run checks everything that can be wrong before anything begins.
func (f *captureFlags) run(cmd *cobra.Command, args []string) error {
	name := ""
	if f.socket == "" && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	f.request.Filter = strings.Join(args, " ")
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	if f.socket != "" {
		return f.local(ctx, cmd)
	}
	return f.far(ctx, cmd, name)
}

func (f *captureFlags) check(cmd *cobra.Command) error {
	if _, err := capture.ParseFilter(f.request.Filter); err != nil {
		return wrongUsage(cmd, "%w", err)
	}
	for _, stage := range f.request.Stages {
		if !slices.Contains(daemon.CaptureStages, stage) {
			return wrongUsage(cmd, "--stage %s: no such stage; choose of %s", stage, strings.Join(daemon.CaptureStages, ", "))
		}
	}
	switch {
	case len(f.request.Stages) == 0:
		return wrongUsage(cmd, "--stage is empty; choose of %s", strings.Join(daemon.CaptureStages, ", "))
	case f.output == "":
		return wrongUsage(cmd, "--output is missing; name a file, or - to pipe it into another program")
	case f.output == "-" && isTerminal(cmd.OutOrStdout()):
		return wrongUsage(cmd, "a terminal cannot show packets; name a file with -o, or pipe into another program, like | wireshark -k -i -")
	case f.duration < 0 || f.request.Packets < 0 || f.request.Snap < 0:
		return wrongUsage(cmd, "--duration, --packets and --snap cannot be negative; leave one out for no limit")
	case f.socket != "" && (f.cluster.given() || cmd.Flags().Changed("gateway-namespace")):
		return wrongUsage(cmd, "--socket is about a gateway on this machine; leave the flags out that name a cluster")
	}
	return nil
}

// local captures in the gateway behind a socket.
func (f *captureFlags) local(ctx context.Context, cmd *cobra.Command) error {
	until, end := io.Pipe() // its end is that of the capture
	defer end.Close()
	context.AfterFunc(ctx, func() { end.Close() })
	if f.untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, cmd.InOrStdin())
			end.Close()
		}()
	}
	packets, err := daemon.Capture(context.WithoutCancel(ctx), f.socket, f.request, until)
	if err != nil {
		return err
	}
	defer packets.Close()
	return f.write(cmd, packets)
}

// captureProgress is how often the progress is told.
const captureProgress = time.Second

// write takes a file of packets to where it belongs, and tells what is in it.
func (f *captureFlags) write(cmd *cobra.Command, packets io.Reader) (err error) {
	from := capture.NewReader(packets)
	first, _, err := from.Next() // before a file is made or overwritten
	if err != nil {
		return cutShort(err)
	}
	to := cmd.OutOrStdout()
	if f.output != "-" {
		file, err := os.Create(f.output)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	out := bufio.NewWriter(to)
	count, size, told := 0, 0, time.Now()
	if _, err := out.Write(first); err != nil {
		return err
	}
	progress := operator.NewProgress(cmd.ErrOrStderr(), true)
	if !isTerminal(cmd.ErrOrStderr()) {
		progress = nil // a line for each second would be of no use
	}
	defer func() {
		progress.Done()
		if err == nil {
			fmt.Fprintln(cmd.ErrOrStderr(), captureSummary(count, size, from.Total().Lost))
		}
	}()
	for {
		raw, packet, err := from.Next()
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return errors.Join(out.Flush(), cutShort(err))
		}
		if packet != nil {
			count, size = count+1, size+packet.Original
		}
		if _, err := out.Write(raw); err != nil {
			return err
		}
		if !from.Waits() {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if now := time.Now(); now.Sub(told) >= captureProgress {
			told = now
			progress.Say(fmt.Sprintf("%d packets, %d bytes, %d lost; Ctrl-C ends it", count, size, from.Total().Lost))
		}
	}
}

// captureSummary is what a capture comes to.
func captureSummary(packets, bytes int, lost uint64) string {
	text := fmt.Sprintf("%d packets, %d bytes, ", packets, bytes)
	if lost == 0 {
		return text + "none lost"
	}
	return text + fmt.Sprintf("%d lost: more than could be written; narrow the filter, or keep less of each packet with --snap", lost)
}

// cutShort says what the end of a file in the middle means.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the gateway ended in the middle of the capture; what came until then is in the file")
	}
	return err
}
