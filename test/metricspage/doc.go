// Package metricspage holds docs/metrics.md to what programs serve.
package metricspage
