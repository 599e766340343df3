// Package metrics serves what a borrower and a lender measure as Prometheus metrics. The metrics
// of each carry the name of its Peering; no label holds what the other cluster chooses.
package metrics
