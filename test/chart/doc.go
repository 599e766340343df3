// Package chart tests the Helm chart: that it renders what it should and refuses what it
// should, that real API servers take it, that its pods are as harmless as it says, and that
// the controller works with the rights and files that it gives it.
package chart
