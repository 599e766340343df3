//go:build linux

package main

import (
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// podLog returns the log of a program in a pod, which is that of client-go too.
func podLog(cmd *cobra.Command) *slog.Logger {
	log := newLog(cmd.ErrOrStderr(), slog.LevelInfo)
	klog.SetSlogLogger(log)
	return log
}
