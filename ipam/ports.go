package ipam

import (
	"hash/fnv"
	"time"
)

// Ports assigns ports of a range to keys. A port that was released is assigned to another key only after some time, so
// that clients that still know it do not reach something else. Assignments survive a restart of the program if it takes
// them again; what was released is forgotten then. Not for concurrent use.
type Ports struct {
	first, count uint32
	rest         time.Duration
	owners       map[uint16]string
	ports        map[string]uint16
	released     map[uint16]release
}

type release struct {
	key string
	at  time.Time
}

// NewPorts returns a plan for the ports from first to last, of which each rests for a time before it gets another key.
func NewPorts(first, last uint16, rest time.Duration) *Ports {
	return &Ports{
		first: uint32(first), count: uint32(last) - uint32(first) + 1, rest: rest,
		owners: make(map[uint16]string), ports: make(map[string]uint16), released: make(map[uint16]release),
	}
}

// Take assigns a port to a key that had it before. It reports false if the port is outside of the range or has another
// key, or if the key has another port.
func (p *Ports) Take(key string, port uint16) bool {
	if i := uint32(port) - p.first; i >= p.count {
		return false
	}
	if owner, taken := p.owners[port]; taken {
		return owner == key
	}
	if _, has := p.ports[key]; has {
		return false
	}
	p.assign(key, port)
	return true
}

// Assign returns the port of a key, a new one if it has none. The first choice depends only on the key, so that a key that
// comes back gets the same port where possible. It reports false if all ports are taken or rest.
func (p *Ports) Assign(key string, now time.Time) (port uint16, ok bool) {
	if port, ok = p.ports[key]; ok {
		return port, true
	}
	for port, r := range p.released {
		if now.Sub(r.at) >= p.rest {
			delete(p.released, port)
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	start := h.Sum32() % p.count
	for i := range p.count {
		port := uint16(p.first + (start+i)%p.count)
		if _, taken := p.owners[port]; taken {
			continue
		}
		if r, rests := p.released[port]; rests && r.key != key {
			continue
		}
		p.assign(key, port)
		return port, true
	}
	return 0, false
}

func (p *Ports) assign(key string, port uint16) {
	p.owners[port], p.ports[key] = key, port
	delete(p.released, port)
}

// Release takes the port of a key back. Without a port it is a no-op.
func (p *Ports) Release(key string, now time.Time) {
	if port, has := p.ports[key]; has {
		delete(p.ports, key)
		delete(p.owners, port)
		p.released[port] = release{key, now}
	}
}
