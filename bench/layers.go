package bench

import (
	"context"
	"crypto/cipher"
	"encoding/binary"

	"golang.org/x/crypto/chacha20poly1305"

	"strait.dev/strait/gateway"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// parse times the validation of an IP packet.
func parse(size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		var ip packet.IP
		return timeEach(e, small().incoming(spread, size), func(p *edited) bool {
			return packet.Parse(p.bytes, &ip) == packet.FaultNone
		})
	}
}

// translate times the translation of one address of a parsed packet.
func translate(size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		m, err := nat.NewMap(ranges4.remote, ranges4.remoteSeen)
		if err != nil {
			return nil, err
		}
		one := small().incoming(1, size)
		var ip packet.IP
		if packet.Parse(one[0].bytes, &ip) != packet.FaultNone {
			return nil, errVerdict
		}
		return timeEach(e, one, func(p *edited) bool {
			parsed := ip
			return nat.Rewrite(p.bytes, &parsed, m, nil)
		})
	}
}

// duplicate times the copy from the receive ring to a buffer of WireGuard.
func duplicate(size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		buffers := make([]byte, spread*packet.MaxLen)
		next := 0
		return timeEach(e, small().incoming(spread, size), func(p *edited) bool {
			n := copy(buffers[next*packet.MaxLen:][:packet.MaxLen], p.bytes)
			next = (next + 1) % spread
			return n == size
		})
	}
}

// Header and padding that WireGuard adds to a packet; WireGuard paper section 5.4.6.
const (
	transportLen = 16
	paddedTo     = 16
)

// sealer encrypts and decrypts as a WireGuard session does.
type sealer struct {
	cipher.AEAD
	nonce  [chacha20poly1305.NonceSize]byte
	sealed []byte
	plain  []byte
}

func newSealer() *sealer {
	aead, err := chacha20poly1305.New(make([]byte, chacha20poly1305.KeySize)) // not secret: nothing leaves this process
	if err != nil {
		panic(err) // the key has its size
	}
	return &sealer{
		AEAD:   aead,
		sealed: make([]byte, transportLen+packet.MaxLen+chacha20poly1305.Overhead),
		plain:  make([]byte, packet.MaxLen+paddedTo),
	}
}

// count advances the nonce, so that every packet has its own.
func (s *sealer) count() []byte {
	binary.LittleEndian.PutUint64(s.nonce[4:], binary.LittleEndian.Uint64(s.nonce[4:])+1)
	return s.nonce[:]
}

// seal times the encryption of one packet.
func seal(size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		s := newSealer()
		content := s.plain[:padded(size)]
		return timeEach(e, make([]edited, 1), func(*edited) bool {
			return len(s.Seal(s.sealed[:transportLen], s.count(), content, nil)) > len(content)
		})
	}
}

// open times the decryption of one packet.
func open(size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		s := newSealer()
		nonce := s.count()
		content := s.Seal(s.sealed[:0], nonce, s.plain[:padded(size)], nil)
		return timeEach(e, make([]edited, 1), func(*edited) bool {
			_, err := s.Open(s.plain[:0], nonce, content, nil)
			return err == nil
		})
	}
}

func padded(size int) int { return (size + paddedTo - 1) / paddedTo * paddedTo }

// pipeline times everything that two gateways do to a packet, except for sockets and
// threads: egress, copying to WireGuard's buffer, encryption, decryption, ingress.
func pipeline(size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		near := small()
		out, in := gateway.NewEgress(near.gateway), gateway.NewIngress(far())
		s := newSealer()
		return timeEach(e, near.outgoing(spread, size), func(p *edited) bool {
			r := out.Frame(p.bytes, gateway.Outer{Source: p.from, Encapsulation: gateway.Geneve}, moment)
			if r.Verdict != gateway.ToTunnel {
				return false
			}
			buffer := s.sealed[transportLen:]
			n := copy(buffer, r.Packet)
			clear(buffer[n:padded(n)])
			nonce := s.count()
			sealed := s.Seal(buffer[:0], nonce, buffer[:padded(n)], nil)
			plain, err := s.Open(sealed[:0], nonce, sealed, nil)
			return err == nil && in.Packet(plain, moment).Verdict == gateway.ToNode
		})
	}
}
