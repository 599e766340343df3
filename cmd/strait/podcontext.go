//go:build linux

package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// podContext returns what a program in a pod runs with: its log, which is that of client-go too, and a context that the
// termination of the pod ends.
func podContext(cmd *cobra.Command) (ctx context.Context, log *slog.Logger, stop context.CancelFunc) {
	log = newLog(cmd.ErrOrStderr(), slog.LevelInfo)
	klog.SetSlogLogger(log)
	ctx, stop = signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	return ctx, log, stop
}
