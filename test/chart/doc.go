// Package chart tests the Helm chart: that it renders the expected objects and rejects
// invalid values, that real API servers accept it, that its pods have only the documented
// privileges, and that the controller works with the permissions and files of the chart.
package chart
