// Package layers holds the test that keeps imports pointing down, as
// ARCHITECTURE.md draws them. There is nothing to import here.
package layers
