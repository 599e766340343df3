// Package rules tests the alerts and dashboards that come with the chart.
package rules
