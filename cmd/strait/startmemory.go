package main

import (
	"log/slog"
	"time"

	"strait.dev/strait/internal/resident"
)

// startTime is when a program in a cluster has read its objects, normally.
const startTime = 20 * time.Second

// trimAfterStart gives back the memory that only the start needed. A gateway does so by itself.
func trimAfterStart(log *slog.Logger) *time.Timer {
	return time.AfterFunc(startTime, func() { resident.Trim(log) })
}
