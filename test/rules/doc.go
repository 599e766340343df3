// Package rules tests the alerts and dashboards of the chart.
package rules
