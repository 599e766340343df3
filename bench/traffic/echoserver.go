package traffic

import (
	"net/netip"

	"strait.dev/strait/underlay"
)

// Echo sends responses to the datagrams that arrive on a socket.
type Echo struct{ listener *Listener }

// NewEcho responds on s, which must stay open until Close. Responses go to the address to,
// or to the sender if it is not valid. makeResponse turns a request into a response, in
// place, and reports whether there is one; nil leaves it unchanged.
func NewEcho(s *underlay.Socket, to netip.AddrPort, makeResponse func(datagram []byte) bool) (*Echo, error) {
	batch := underlay.NewBatch(1)
	at := underlay.NewDestination(to)
	listener, err := Listen(s, func(datagram []byte, from netip.AddrPort) {
		if makeResponse != nil && !makeResponse(datagram) {
			return
		}
		if !to.IsValid() {
			at = underlay.NewDestination(from)
		}
		batch.Add(s, &at, nil, datagram)
		batch.Flush()
	})
	return &Echo{listener}, err
}

// Close stops responding.
func (e *Echo) Close() { e.listener.Close() }
