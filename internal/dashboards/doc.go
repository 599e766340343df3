// Command dashboards writes the chart's dashboards for Grafana, from what each shows in
// the files named like them. Grafana's own form, with twenty lines to each, is not for
// reading.
//
//	go run ./internal/dashboards charts/strait/dashboards
package main
