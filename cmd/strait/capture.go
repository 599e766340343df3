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
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/install"
)

type captureFlags struct {
	cluster   clusterFlags
	namespace string // of gateways
	socket    string
	request   localsocket.CaptureRequest
	duration  time.Duration
	file      string
	untilEOF  bool // end with standard input: how strait capture of a cluster ends this one
}

func newCapture() *cobra.Command {
	var f captureFlags
	c := &cobra.Command{
		Use:   "capture [PEERING|GATEWAY] [FILTER]",
		Short: "Capture packets in a gateway",
		Long: `Capture packets in a gateway, into a pcapng file for Wireshark and tcpdump. No privilege
is needed on either machine.

Stages, of which several may be given:
  inner      IP packets as pods of this cluster send and receive them
  tunnel     IP packets in the tunnel, translated and before encryption
  overlay    Geneve or VXLAN frames between nodes and the gateway
  wireguard  encrypted datagrams between gateways

FILTER has the syntax of tcpdump: host, net, port and portrange, with src or dst; tcp,
udp, icmp, icmp6, ip, ip6; less, greater; and, or, not, parentheses. In the stages
overlay and wireguard it applies to the outer packet.

The file holds whole packets in the clear, also those that the tunnel encrypts. The
capture ends after --duration or --packets, or with Ctrl-C.`,
		Example: `  strait capture b-0 --file b-0.pcapng --duration 30s 'host 10.71.2.9 and tcp port 80'
  strait capture b-0 --stage inner,tunnel --file - icmp or icmp6 | wireshark -k -i -
  strait capture --socket /run/strait.sock --stage wireguard --file wg.pcapng`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	c.Flags().StringVar(&f.namespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().StringVar(&f.socket, "socket", "", "unix socket of a gateway on this machine, instead of one in a cluster")
	c.Flags().StringSliceVar(&f.request.Stages, "stage", []string{"inner"}, "stages to capture: "+strings.Join(localsocket.CaptureStages, ", "))
	c.Flags().DurationVar(&f.duration, "duration", 0, "how long to capture (default: until Ctrl-C)")
	c.Flags().IntVar(&f.request.Packets, "packets", 0, "maximum number of packets (default: no limit)")
	c.Flags().IntVar(&f.request.Snap, "snap", 0, "maximum number of bytes of each packet (default: no limit)")
	c.Flags().StringVarP(&f.file, "file", "f", "", "file to write, or - for standard output")
	c.Flags().BoolVar(&f.untilEOF, "until-eof", false, "")
	_ = c.Flags().MarkHidden("until-eof")
	completeValues(c, "stage", localsocket.CaptureStages)
	return c
}

// run checks the whole command line before the capture begins.
func (f *captureFlags) run(cmd *cobra.Command, args []string) error {
	name := ""
	if f.socket == "" && len(args) > 0 {
		name, args = args[0], args[1:]
	}
	f.request.Filter = strings.Join(args, " ")
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.file != "-" {
		if err := checkWritable("--file", f.file); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	endAtSecondSignal(cmd)
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
		if !slices.Contains(localsocket.CaptureStages, stage) {
			return wrongUsage(cmd, "--stage %s: no such stage; choose %s", stage, choice(localsocket.CaptureStages))
		}
	}
	switch {
	case len(f.request.Stages) == 0:
		return wrongUsage(cmd, "--stage is empty: choose %s", choice(localsocket.CaptureStages))
	case f.file == "":
		return wrongUsage(cmd, "--file is missing: name a file, or - to pipe the packets into another program")
	case f.file == "-" && isTerminal(cmd.OutOrStdout()):
		return wrongUsage(cmd, "a terminal cannot show packets: name a file with --file, or pipe into another program, as in | wireshark -k -i -")
	case f.duration < 0 || f.request.Packets < 0 || f.request.Snap < 0:
		return wrongUsage(cmd, "--duration, --packets and --snap cannot be negative: leave one out for no limit")
	case f.socket != "" && (f.cluster.given() || cmd.Flags().Changed("gateway-namespace")):
		return wrongUsage(cmd, "--socket selects a gateway on this machine: leave out the flags that select a cluster")
	}
	return nil
}

// local captures in the gateway that listens on the socket.
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
	packets, err := localsocket.Capture(context.WithoutCancel(ctx), f.socket, f.request, until)
	if err != nil {
		return err
	}
	defer packets.Close()
	return f.write(cmd, packets)
}

const captureProgress = time.Second

// write copies packets to the file and prints a summary.
func (f *captureFlags) write(cmd *cobra.Command, packets io.Reader) (err error) {
	from := capture.NewReader(packets)
	first, _, err := from.Next() // before a file is made or overwritten
	if err != nil {
		return cutShort(err)
	}
	to := unescaped(cmd.OutOrStdout())
	if f.file != "-" {
		file, err := os.Create(f.file)
		if err != nil {
			return fileError("--file", f.file, err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	out := bufio.NewWriter(to)
	count, size, told := 0, 0, time.Now()
	if _, err := out.Write(first); err != nil {
		return err
	}
	progress := newProgress(cmd)
	if !isTerminal(cmd.ErrOrStderr()) {
		progress = nil // a file of one line a second helps no reader
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
			progress.Say(fmt.Sprintf("%d packets, %d bytes, %d lost; stop with Ctrl-C", count, size, from.Total().Lost))
		}
	}
}

func captureSummary(packets, bytes int, lost uint64) string {
	text := fmt.Sprintf("%d packets, %d bytes, ", packets, bytes)
	if lost == 0 {
		return text + "none lost"
	}
	return text + fmt.Sprintf("%d lost: packets arrived faster than they could be written; narrow the filter, or shorten packets with --snap", lost)
}

// cutShort explains the unexpected end of a capture.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the gateway stopped during the capture: the file holds the packets until then")
	}
	return err
}
