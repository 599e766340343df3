package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/underlay"
)

func newGateway() *cobra.Command {
	var path string
	var check, debug bool
	var sockets underlay.Options
	c := &cobra.Command{
		Use:   "gateway --config FILE",
		Short: "Run a gateway from a configuration file",
		Long: `Run a gateway in the foreground on the configuration in FILE.

The file and the key files it names are watched: a valid change is applied
without losing a packet, an invalid one is reported and changes nothing. SIGHUP
reads them at once. SIGTERM ends the gateway after it has drained.`,
		Example: `  strait gateway --config gateway.yaml
  strait gateway --config gateway.yaml --check`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return &usageError{errors.New("--config is missing; name the configuration file"), "strait gateway --help"}
			}
			if check {
				if _, err := daemon.Load(path); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", path)
				return nil
			}
			level := slog.LevelInfo
			if debug {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			return daemon.Run(path, daemon.Signals{
				Reload: notify(syscall.SIGHUP),
				Stop:   notify(syscall.SIGTERM, os.Interrupt),
			}, daemon.Options{Log: log, Sockets: sockets})
		},
	}
	c.Flags().StringVarP(&path, "config", "c", "", "configuration file")
	c.Flags().BoolVar(&check, "check", false, "check the configuration and exit")
	c.Flags().BoolVar(&debug, "debug", false, "log more, WireGuard's handshakes among it")
	c.Flags().BoolVar(&sockets.DisableGSO, "disable-gso", false, "send one datagram at a time (UDP_SEGMENT off), for kernels that lose segmented ones")
	c.Flags().BoolVar(&sockets.DisableGRO, "disable-gro", false, "receive one datagram at a time (UDP_GRO off)")
	return c
}

func notify(s ...os.Signal) <-chan os.Signal {
	c := make(chan os.Signal, 2)
	signal.Notify(c, s...)
	return c
}
