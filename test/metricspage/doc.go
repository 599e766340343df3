// Package metricspage holds docs/reference/metrics.md to what programs serve.
package metricspage
