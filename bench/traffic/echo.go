package traffic

import (
	"net/netip"

	"strait.dev/strait/underlay"
)

// Echo sends back what arrives on a socket.
type Echo struct{ ear *Ear }

// NewEcho answers on s, which must stay open until Close. Answers go to an address,
// or to whoever asked if it is not valid. turn makes an answer of a question, in
// place, and says whether there is one; nil leaves it as it is.
func NewEcho(s *underlay.Socket, to netip.AddrPort, turn func(datagram []byte) bool) (*Echo, error) {
	batch := underlay.NewBatch(1)
	at := underlay.NewDestination(to)
	ear, err := Hear(s, func(datagram []byte, from netip.AddrPort) {
		if turn != nil && !turn(datagram) {
			return
		}
		if !to.IsValid() {
			at = underlay.NewDestination(from)
		}
		batch.Add(s, &at, nil, datagram)
		batch.Flush()
	})
	return &Echo{ear}, err
}

// Close ends the answering.
func (e *Echo) Close() { e.ear.Close() }
