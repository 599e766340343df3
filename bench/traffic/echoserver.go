package traffic

import (
	"net/netip"

	"strait.dev/strait/underlay"
)

// Echo sends back what arrives on a socket.
type Echo struct{ listener *Listener }

// NewEcho answers on s, which must stay open until Close. Responses go to an address,
// or to whoever asked if it is not valid. makeResponse makes a response of a request, in
// place, and says whether there is one; nil leaves it as it is.
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

// Close ends the answering.
func (e *Echo) Close() { e.listener.Close() }
