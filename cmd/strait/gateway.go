package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/underlay"
)

// gatewayFlags are what `strait gateway` is told.
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
		Short: "Run a gateway, from a configuration file or in Kubernetes",
		Long: `Run a gateway in the foreground.

With --config it runs on the configuration in FILE. The file and the key files it
names are watched: a valid change is applied without losing a packet, an invalid
one is reported and changes nothing. SIGHUP reads them at once.

Without --config it is the gateway of a Peering in Kubernetes, and follows the
objects of its cluster. While the API server is away it goes on with what it has,
also after a restart.

SIGTERM ends the gateway after it has drained.`,
		Example: `  strait gateway --config gateway.yaml
  strait gateway --config gateway.yaml --check
  strait gateway --peering b --name b-0 --node node-1 --pod-ips 10.0.1.9 \
    --key-dir keys --cache-dir cache --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().StringVarP(&f.path, "config", "c", "", "configuration file; without it the gateway runs in Kubernetes")
	c.Flags().BoolVar(&f.check, "check", false, "check the configuration file and exit")
	c.Flags().BoolVar(&f.debug, "debug", false, "log more, WireGuard's handshakes among it")
	c.Flags().BoolVar(&f.sockets.DisableGSO, "disable-gso", false, "send one datagram at a time (UDP_SEGMENT off), for kernels that lose segmented ones")
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
	o := daemon.Options{Log: slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})), Sockets: f.sockets, Socket: f.socket}
	switch {
	case f.path == "" && f.check:
		return gatewayUsage(errors.New("--check needs --config; name the configuration file"))
	case f.path == "":
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
		context.AfterFunc(ctx, stop) // a second signal ends it at once
		return f.kubernetes.run(ctx, o)
	case f.kubernetes.given(cmd) != "":
		return gatewayUsage(fmt.Errorf("--config and --%s exclude each other; leave one out", f.kubernetes.given(cmd)))
	case f.check:
		if _, err := daemon.Load(f.path); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", f.path)
		return nil
	}
	return daemon.Run(f.path, daemon.Signals{
		Reload: notify(syscall.SIGHUP),
		Stop:   notify(syscall.SIGTERM, os.Interrupt),
	}, o)
}

func gatewayUsage(err error) error { return &usageError{err, "strait gateway --help"} }

func notify(s ...os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 2)
	signal.Notify(c, s...)
	return c
}
