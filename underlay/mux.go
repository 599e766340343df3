package underlay

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
)

// Mux lets WireGuard devices ("links") share one UDP port, with the same private key or
// with different ones. Each link has a conn.Bind of its own, so to WireGuard it looks
// alone.
//
// A single link reads the sockets itself. With several, the first to open reads, and
// hands over what is for others; when it closes, another takes over. The receiver
// index in each message tells whose it is: the Mux learns a link's indices from the
// handshake messages the link sends. Only initiations have none: their first MAC tells
// the public key they are made for, and they go to all links that have it, in bounds.
//
// Safe for concurrent use. The sockets are open while any link is.
type Mux struct {
	options Options
	batches sync.Pool // of *Batch, for Send

	tap    atomic.Pointer[Tap] // nil: nobody looks on
	routes routes
	open   atomic.Pointer[links] // never modified once stored

	unknown         atomic.Uint64
	initiations     atomic.Uint64
	inboxFull       atomic.Uint64
	sendFailures    atomic.Uint64
	receiveFailures atomic.Uint64

	mu        sync.Mutex // serialises opening and closing, protects what follows
	port      *port      // nil while no session is open
	overflows uint64     // of ports closed
}

// Counters of a Mux. They never decrease.
type Counters struct {
	Unknown         uint64 // datagrams received that no link expects; with one link, WireGuard judges all but initiations
	Initiations     uint64 // initiations received that were more than the links can judge
	InboxFull       uint64 // datagrams received for a link that did not keep up
	SendFailures    uint64 // datagrams the kernel refused or had no room for
	ReceiveFailures uint64 // system calls that failed to receive
}

// NewMux makes a Mux without links. It opens nothing yet.
func NewMux(o Options) *Mux {
	m := &Mux{options: o}
	m.batches.New = func() any { return NewBatch(conn.IdealBatchSize) }
	m.open.Store(new(links))
	return m
}

// Link makes the bind of one more WireGuard device, which has the private key of own. All
// links must be opened with the same port, or with 0.
func (m *Mux) Link(own device.NoisePublicKey) conn.Bind { return m.BoundedLink(own, nil) }

// BoundedLink is Link for a device whose packets w is told of. What it does not keep up
// with is dropped and counted as Counters.InboxFull.
func (m *Mux) BoundedLink(own device.NoisePublicKey, w *Window) conn.Bind {
	l := &link{mux: m, own: own, window: w}
	l.cookies.Init(own)
	return l
}

// Counters returns what was counted so far.
func (m *Mux) Counters() Counters {
	return Counters{
		Unknown:         m.unknown.Load(),
		Initiations:     m.initiations.Load(),
		InboxFull:       m.inboxFull.Load(),
		SendFailures:    m.sendFailures.Load(),
		ReceiveFailures: m.receiveFailures.Load(),
	}
}

// Overflows counts the datagrams that the kernel dropped before they could be
// received. It never decreases.
func (m *Mux) Overflows() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	overflows := m.overflows
	if m.port != nil {
		for _, s := range m.port.sockets() {
			overflows += s.Overflows()
		}
	}
	return overflows
}

// links are those that are open.
type links struct {
	sessions   []*session // in the order of opening
	keyEntries []keyEntry // the same, by key
}

// keyEntry is where initiations for one key arrive.
type keyEntry struct {
	cookies  *device.CookieChecker // of the first of sessions
	sessions []*session
}

// sessions are the open sessions, in the order of opening. The first reads.
func (m *Mux) sessions() []*session { return m.open.Load().sessions }

func (m *Mux) setSessions(sessions []*session) {
	o := &links{sessions: sessions}
	at := make(map[device.NoisePublicKey]int)
	for _, s := range sessions {
		i, ok := at[s.link.own]
		if !ok {
			i = len(o.keyEntries)
			at[s.link.own] = i
			o.keyEntries = append(o.keyEntries, keyEntry{cookies: &s.link.cookies})
		}
		o.keyEntries[i].sessions = append(o.keyEntries[i].sessions, s)
	}
	m.open.Store(o)
}

// openSession opens the port if no other session has, and makes a session of it.
func (m *Mux) openSession(number uint16, l *link) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	others := m.sessions()
	if m.port != nil && number != 0 && number != m.port.number {
		return nil, fmt.Errorf("open WireGuard port %d: the other links use port %d: "+
			"give all the same, or close all to change it", number, m.port.number)
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

// closeSession ends s. When it returns, s reads nothing any more, and another session
// has taken over.
func (m *Mux) closeSession(s *session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := s.poller.Close() // waits until s is out of port.read
	others := slices.Clone(m.sessions())
	others = slices.DeleteFunc(others, func(other *session) bool { return other == s })
	m.setSessions(others)
	m.routes.leave(s)
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
