// Package layers tests the import direction of ARCHITECTURE.md. It exports nothing.
package layers
