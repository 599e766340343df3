// Package daemon assembles a gateway process from a configuration: sockets, table, WireGuard links, host stack, metrics and
// reload. It makes no decisions about packets; it connects the packages that do.
package daemon
