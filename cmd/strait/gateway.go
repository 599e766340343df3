//go:build linux

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/underlay"
)

type gatewayFlags struct {
	path, socket string
	check, debug bool
	sockets      underlay.Options
	kubernetes   gatewayObjects
}

func newGateway() *cobra.Command {
	var f gatewayFlags
	c := &cobra.Command{
		Use:   "gateway [--config FILE]",
		Short: "Run a gateway",
		Long: `Run a gateway in the foreground.

With --config, the gateway runs with the configuration in FILE. It watches the file and
the key files that the configuration names: a valid change is applied without packet
loss, an invalid one is logged and changes nothing. SIGHUP reloads them at once.

With --config and --check, the command reads the configuration and the key files, prints
what is wrong with them, and exits.

Without --config, the gateway is one of a Peering in Kubernetes and follows the objects of
its cluster. While the API server is unreachable, it keeps forwarding with its last
configuration, even after a restart.

SIGTERM ends the gateway after it has drained.`,
		Example: `  strait gateway --config gateway.yaml
  strait gateway --config gateway.yaml --check
  strait gateway --peering b --namespace strait-gateways --name b-0 --pod-ips 10.0.1.9 \
    --key-dir keys --cache-dir cache --kubeconfig ~/.kube/config`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().StringVarP(&f.path, "config", "c", "", "configuration `FILE`; without it the gateway runs in Kubernetes")
	c.Flags().BoolVar(&f.check, "check", false, "check the configuration and its key files, and exit")
	c.Flags().BoolVar(&f.debug, "debug", false, "log debug messages, including those of WireGuard")
	c.Flags().BoolVar(&f.sockets.DisableGSO, "disable-gso", false, "send one datagram at a time (UDP_SEGMENT off), for kernels that drop segmented datagrams")
	c.Flags().BoolVar(&f.sockets.DisableGRO, "disable-gro", false, "receive one datagram at a time (UDP_GRO off)")
	c.Flags().StringVar(&f.socket, "socket", "", "unix socket for strait capture and strait trace (default: "+install.SocketName+" in --cache-dir; none with --config)")
	f.kubernetes.register(c)
	return c
}

func (f *gatewayFlags) run(cmd *cobra.Command) error {
	level := slog.LevelInfo
	if f.debug {
		level = slog.LevelDebug
	}
	o := daemon.Options{Log: newLog(cmd.ErrOrStderr(), level), Sockets: f.sockets, Socket: f.socket}
	switch {
	case f.path == "" && f.check:
		return gatewayUsage(errors.New("--check needs --config: name the configuration file"))
	case f.path == "":
		endAtSecondSignal(cmd)
		return f.kubernetes.run(cmd.Context(), o)
	case f.kubernetes.given(cmd) != "":
		return gatewayUsage(fmt.Errorf("--config and --%s exclude each other: leave one out", f.kubernetes.given(cmd)))
	case f.check:
		c, err := daemon.Load(f.path)
		if err != nil {
			return err
		}
		warnings, err := daemon.CheckKeys(c)
		for _, warning := range warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), errorPrefix+"warning: "+warning)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", f.path)
		return nil
	}
	signals := daemon.Signals{Reload: notify(syscall.SIGHUP), Stop: notify(syscall.SIGTERM, os.Interrupt)}
	if err := cmd.Context().Err(); err != nil {
		return err // by a signal before these
	}
	return daemon.Run(f.path, signals, o)
}

func gatewayUsage(err error) error { return &usageError{err, "strait gateway --help"} }

func notify(s ...os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 2)
	signal.Notify(c, s...)
	return c
}

// podLog returns the log of a program in a pod, which is that of client-go too.
func podLog(cmd *cobra.Command) *slog.Logger {
	log := newLog(cmd.ErrOrStderr(), slog.LevelInfo)
	klog.SetSlogLogger(log)
	return log
}
