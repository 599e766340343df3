//go:build linux

package underlay

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
)

// Mux lets WireGuard devices ("links") share one UDP port, with the same private key or with different
// ones. Each link has its own conn.Bind, so WireGuard does not notice the sharing.
//
// A single link reads the sockets itself. With several, the first to open reads and hands over
// datagrams for the others; when it closes, another one becomes the reader. The receiver index in each
// message identifies its link: the Mux learns the indices of a link from the handshake messages that
// the link sends. Initiations have no receiver index: their first MAC identifies the public key they
// are made for, and they go, rate-limited, to all links with that key. A link may also have a port of
// its own, from which it sends.
//
// Safe for concurrent use. The sockets are open while any link is.
type Mux struct {
	options Options
	batches sync.Pool // of *Batch, for Send

	tap    atomic.Pointer[Tap] // nil: no tap
	routes routes
	open   atomic.Pointer[links] // never modified once stored

	unknown         atomic.Uint64
	initiations     atomic.Uint64
	newSenders      atomic.Uint64
	inboxFull       atomic.Uint64
	sendFailures    atomic.Uint64
	receiveFailures atomic.Uint64

	mu        sync.Mutex // serialises opening and closing, protects the fields below
	port      *port      // nil while no session is open
	overflows uint64     // of ports closed
}

// Counters of a Mux. They never decrease.
type Counters struct {
	Unknown         uint64 // datagrams received that belong to no link; with one link, WireGuard checks all except initiations
	Initiations     uint64 // initiations dropped by the rate limit
	NewSenders      uint64 // datagrams dropped because too many came from addresses not seen before
	InboxFull       uint64 // datagrams dropped because the link did not keep up
	SendFailures    uint64 // datagrams that the kernel refused or had no buffer space for
	ReceiveFailures uint64 // system calls that failed to receive
	Overflows       uint64 // datagrams that the kernel dropped before they were received
}

// NewMux returns a Mux without links. It opens no socket yet.
func NewMux(o Options) *Mux {
	m := &Mux{options: o}
	m.batches.New = func() any { return NewBatch(conn.IdealBatchSize) }
	m.open.Store(new(links))
	return m
}

// Link returns the bind of another WireGuard device: of the end with the public key own, whose only peer has
// the key remote. All links must be opened with the same port, or with 0.
//
// The device reports its progress to w; datagrams beyond the limit are dropped and counted as
// Counters.InboxFull. Nil: there is no limit.
func (m *Mux) Link(own, remote device.NoisePublicKey, w *Window) Bind {
	l := &linkBind{mux: m, own: own, window: w}
	l.crossing.Prevails = bytes.Compare(own[:], remote[:]) < 0
	l.cookies.Init(own)
	return l
}

// Counters returns what was counted so far.
func (m *Mux) Counters() Counters {
	return Counters{
		Unknown:         m.unknown.Load(),
		Initiations:     m.initiations.Load(),
		NewSenders:      m.newSenders.Load(),
		InboxFull:       m.inboxFull.Load(),
		SendFailures:    m.sendFailures.Load(),
		ReceiveFailures: m.receiveFailures.Load(),
		Overflows:       m.allOverflows(),
	}
}

func (m *Mux) allOverflows() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	overflows := m.overflows
	if m.port != nil {
		overflows += m.port.overflows()
	}
	for _, s := range m.sessions() {
		if s.own != nil {
			overflows += s.own.overflows()
		}
	}
	return overflows
}

// links are the open links.
type links struct {
	sessions []*session   // in the order of opening
	byKey    [][]*session // the same, those with the same public key together; the first checks MACs
}

// sessions returns the open sessions in the order of opening. The first reads.
func (m *Mux) sessions() []*session { return m.open.Load().sessions }

func (m *Mux) setSessions(sessions []*session) {
	o := &links{sessions: sessions}
	for _, s := range sessions {
		i := slices.IndexFunc(o.byKey, func(of []*session) bool { return of[0].link.own == s.link.own })
		if i < 0 {
			i, o.byKey = len(o.byKey), append(o.byKey, nil)
		}
		o.byKey[i] = append(o.byKey[i], s)
	}
	m.open.Store(o)
}

// openSession opens the port, unless it is open, and adds a session.
func (m *Mux) openSession(number uint16, l *linkBind) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := m.sessions()
	if m.port != nil && number != 0 && number != m.port.number {
		return nil, fmt.Errorf("open WireGuard port %d: other links use port %d: "+
			"all links must use one port; close all to change it", number, m.port.number)
	}
	if m.port == nil {
		p, err := openPort(number, m.options)
		if err != nil {
			return nil, err
		}
		m.port = p
	}
	s, err := newSession(l, m.port)
	if err == nil && len(others) == 0 {
		err = s.takeOver()
	}
	if err == nil && l.ownPort.Load() {
		err = s.openOwn(m.options)
	}
	if err != nil {
		if s != nil {
			s.poller.Close()
		}
		m.closePortUnlessUsed()
		return nil, err
	}
	m.routes.join(s)
	m.setSessions(append(slices.Clone(others), s))
	return s, nil
}

// closeSession ends s. When it returns, s has stopped reading and another session has become the
// reader.
func (m *Mux) closeSession(s *session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := s.poller.Close() // waits until s has left port.read
	others := slices.Clone(m.sessions())
	others = slices.DeleteFunc(others, func(other *session) bool { return other == s })
	m.setSessions(others)
	m.routes.leave(s)
	if s.own != nil {
		m.overflows += s.own.close()
	}
	if s.reads.Load() && len(others) > 0 {
		err = errors.Join(err, others[0].takeOver())
	}
	m.closePortUnlessUsed()
	return err
}

func (m *Mux) closePortUnlessUsed() {
	if len(m.sessions()) == 0 {
		m.overflows += m.port.close()
		m.port = nil
	}
}

// Tap sees the datagrams of a Mux: sent ones before the kernel takes them, and all received ones. It is
// called by several goroutines concurrently, and must not block, allocate, change the datagram, or keep
// it. The address of local is unspecified, because the kernel chooses it.
type Tap func(sent bool, local, remote netip.AddrPort, datagram []byte)

// SetTap installs a tap, or removes it with nil. The tap is loaded once per batch.
func (m *Mux) SetTap(t Tap) {
	if t == nil {
		m.tap.Store(nil)
		return
	}
	m.tap.Store(&t)
}
