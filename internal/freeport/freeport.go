// Package freeport finds unused port numbers.
package freeport

import (
	"fmt"
	"net"
)

// UDP returns a UDP port that no process uses at the moment, on any address.
// Another process may take it before the caller does.
func UDP() (uint16, error) {
	s, err := net.ListenUDP("udp", nil)
	if err != nil {
		return 0, fmt.Errorf("find a free UDP port: %w", err)
	}
	defer s.Close()
	return s.LocalAddr().(*net.UDPAddr).AddrPort().Port(), nil
}
