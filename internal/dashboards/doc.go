// Command dashboards generates the Grafana dashboards of the chart. Each dashboard is
// defined in the file of its name, in a form shorter than Grafana's JSON.
//
//	go run ./internal/dashboards charts/strait/dashboards
package main
