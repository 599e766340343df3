//go:build linux

package traffic

import (
	"net/netip"
	"time"

	datagrams "strait.dev/strait/bench/traffic"
	"strait.dev/strait/underlay"
)

// answerQuiet is the Quiet of the path of requests: responses to the last ones have a second.
const answerQuiet = time.Second / 15

// Ask returns when all requests are answered, or further responses are unlikely.
func (e *End) Ask(q Requests, a *Responses) error {
	socket, err := underlay.Listen(anyLocal(q.To), underlay.Options{DisableGSO: true, DisableGRO: true})
	if err != nil {
		return err
	}
	defer socket.Close()
	path := datagrams.Path{From: socket, To: netip.AddrPortFrom(q.To, portUDPEcho), Quiet: answerQuiet}
	request := make([]byte, q.Size)
	a.Wanted = int(q.Rate * q.Duration.Seconds())
	begin := time.Now()
	answers, err := path.Probe(func(int) []byte { return request }, q.Rate, a.Wanted)
	if err != nil {
		return err
	}
	a.Latencies, a.Late = latenciesOf(answers.Latencies, time.Since(begin)), answers.Lateness.At(0.5)
	return nil
}

// anyLocal returns the unspecified address of the family of an address, and any port.
func anyLocal(to netip.Addr) netip.AddrPort {
	if to.Is6() {
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}
