// Package daemon assembles one gateway process from a configuration: sockets,
// table, WireGuard links, host stack, metrics and reload. It decides nothing
// about packets; it only joins the packages that do.
package daemon
