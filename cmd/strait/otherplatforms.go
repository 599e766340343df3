//go:build !linux

package main

import (
	"context"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/result"
)

// What runs in clusters and what measures this machine uses the API of Linux. The commands of
// operators are the same on every platform.

func newController() *cobra.Command {
	return linuxOnly("controller", "Run the controller of a cluster")
}
func newGateway() *cobra.Command { return linuxOnly("gateway", "Run a gateway") }
func newNode() *cobra.Command    { return linuxOnly("node", "Run the node helper") }
func newBorrower() *cobra.Command {
	return linuxOnly("borrower", "Run the borrower, the virtual node for another cluster")
}
func newLender() *cobra.Command {
	return linuxOnly("lender", "Run the lender, which runs pods of another cluster")
}
func newDemo() *cobra.Command {
	return linuxOnly("demo", "Join two simulated clusters in this process")
}

func newAgent() *cobra.Command {
	c := linuxOnly("agent", "Wait in a pod that another command runs")
	c.Hidden = true
	return c
}

func newBenchPeer() *cobra.Command {
	c := linuxOnly("peer", "Measure gateways against the kernel's data path")
	c.Example = "  strait bench peer"
	return c
}

func (f *benchFlags) measureHere(context.Context, *cobra.Command) (*result.Run, error) {
	return nil, needsLinux("strait bench without --peering")
}

func (f *benchFlags) testsHere(*cobra.Command) ([]string, error) {
	return nil, needsLinux("strait bench without --peering")
}
