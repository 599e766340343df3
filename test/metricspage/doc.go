// Package metricspage compares docs/reference/metrics.md with the metrics of programs.
package metricspage
