package nat_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// masqueradeTwin is the slow, obvious twin: a list of flows and maps, and rules
// written out. Ports it learns, and holds against the rules.
type masqueradeTwin struct {
	maxFlows, perSource int
	external            []netip.Addr
	flows               []*twinFlow
	mapped              map[twinInside]nat.Endpoint
	heldSince           map[twinOutside]int64
}

type twinInside struct {
	proto  uint8
	inside nat.Endpoint
}

type twinOutside struct {
	proto    uint8
	external nat.Endpoint
}

type twinFlow struct {
	twinInside
	remote   nat.Endpoint
	origin   uint32
	state    nat.TCPState
	answered bool
	last     int64 // seconds
}

func (w *masqueradeTwin) find(in twinInside, remote nat.Endpoint) *twinFlow {
	for _, f := range w.flows {
		if f.twinInside == in && f.remote == remote {
			return f
		}
	}
	return nil
}

func (w *masqueradeTwin) knows(in twinInside, remote netip.Addr) bool {
	for _, f := range w.flows {
		if f.twinInside == in && f.remote.Addr == remote {
			return true
		}
	}
	return false
}

func (w *masqueradeTwin) ofSource(a netip.Addr) (n int) {
	for _, f := range w.flows {
		if f.inside.Addr == a {
			n++
		}
	}
	return n
}

func (f *twinFlow) limit() int64 {
	switch {
	case f.proto == packet.ProtoUDP:
		return 300
	case f.proto != packet.ProtoTCP:
		return 60
	case f.state.Established():
		return 7440
	}
	return 240
}

// drop ends the flows that gone says.
func (w *masqueradeTwin) drop(sec int64, gone func(*twinFlow) bool) (n int) {
	var kept []*twinFlow
	for _, f := range w.flows {
		if gone(f) {
			n++
		} else {
			kept = append(kept, f)
		}
	}
	w.flows = kept
	for in, external := range w.mapped {
		used := false
		for _, f := range w.flows {
			used = used || f.twinInside == in
		}
		if !used {
			delete(w.mapped, in)
			w.heldSince[twinOutside{in.proto, external}] = sec
		}
	}
	return n
}

// owner is who has an external endpoint.
func (w *masqueradeTwin) owner(out twinOutside) (twinInside, bool) {
	for in, external := range w.mapped {
		if in.proto == out.proto && external == out.external {
			return in, true
		}
	}
	return twinInside{}, false
}

// pair is a masquerade and its twin, and a small world for them: few enough
// addresses and ports that everything meets.
type pair struct {
	t       *testing.T
	m       *nat.Masquerade
	twin    *masqueradeTwin
	now     time.Time
	outside []twinOutside // what was an external endpoint, in order
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, now: epoch}
	p.twin = &masqueradeTwin{maxFlows: 16, perSource: 6, mapped: map[twinInside]nat.Endpoint{}, heldSince: map[twinOutside]int64{}}
	p.m = nat.NewMasquerade(nat.MasqueradeConfig{
		Flows: p.twin.maxFlows, FlowsPerSource: p.twin.perSource, Random: rand.NewPCG(5508, 6888), Epoch: epoch,
	})
	p.use(0xff)
	return p
}

func (p *pair) sec() int64 { return int64(p.now.Sub(epoch) / time.Second) }

// use sets the external addresses whose bits are set.
func (p *pair) use(bits byte) {
	var external []netip.Addr
	for i, a := range []netip.Addr{families[0].external, families[0].external2, families[1].external, families[1].external2} {
		if bits>>i&1 != 0 {
			external = append(external, a)
		}
	}
	p.m.Use(external)
	p.twin.external = external
	p.twin.drop(p.sec(), func(f *twinFlow) bool { return !p.twin.uses(p.twin.mapped[f.twinInside].Addr) })
	for out := range p.twin.heldSince {
		if !p.twin.uses(out.external.Addr) {
			delete(p.twin.heldSince, out)
		}
	}
}

func (w *masqueradeTwin) uses(a netip.Addr) bool {
	for _, x := range w.external {
		if x == a {
			return true
		}
	}
	return false
}

func (w *masqueradeTwin) hasFamily(a netip.Addr) bool {
	for _, x := range w.external {
		if x.BitLen() == a.BitLen() {
			return true
		}
	}
	return false
}

func isICMP(proto uint8) bool { return proto == packet.ProtoICMP || proto == packet.ProtoICMPv6 }

func supported(proto uint8, inside, remote nat.Endpoint) bool {
	if inside.Addr.BitLen() != remote.Addr.BitLen() {
		return false
	}
	switch proto {
	case packet.ProtoICMP:
		return inside.Addr.Is4()
	case packet.ProtoICMPv6:
		return inside.Addr.Is6()
	}
	return proto == packet.ProtoTCP || proto == packet.ProtoUDP
}

// out sends a packet out and compares.
func (p *pair) out(proto uint8, inside, remote nat.Endpoint, from uint32, flags uint8) {
	external, o := p.m.Out(proto, inside, remote, from, flags, p.now)
	w, in := p.twin, twinInside{proto, inside}
	if !supported(proto, inside, remote) || isICMP(proto) && remote.Port != 0 {
		p.want(o, nat.Unsupported)
		return
	}
	f := w.find(in, remote)
	if f == nil {
		switch {
		case proto == packet.ProtoTCP && flags&rst != 0:
			p.want(o, nat.Unknown)
			return
		case w.ofSource(inside.Addr) >= w.perSource:
			p.want(o, nat.Quota)
			return
		case len(w.flows) >= w.maxFlows && !p.evicted(o, in, remote):
			p.want(o, nat.Exhausted)
			return
		case !w.hasFamily(inside.Addr):
			p.want(o, nat.Exhausted)
			return
		}
		p.learn(in, external)
		f = &twinFlow{twinInside: in, remote: remote}
		w.flows = append(w.flows, f)
	}
	p.want(o, nat.Translated)
	if external != w.mapped[in] {
		p.t.Fatalf("%v leaves as %v, was %v", in, external, w.mapped[in])
	}
	f.origin = from
	f.saw(nat.Outgoing, flags, p.sec())
}

// saw is what a packet does to its flow.
func (f *twinFlow) saw(d nat.Direction, flags uint8, sec int64) {
	was := f.state
	if f.proto == packet.ProtoTCP {
		f.state = was.Next(d, flags)
	}
	switch {
	case f.proto != packet.ProtoTCP && d == nat.Incoming:
	case f.proto == packet.ProtoTCP && flags&rst != 0 && f.state == was:
	default:
		f.last = max(f.last, sec)
	}
	f.answered = f.answered || d == nat.Incoming
}

// learn holds a new external endpoint against the rules.
func (p *pair) learn(in twinInside, external nat.Endpoint) {
	w := p.twin
	if known, ok := w.mapped[in]; ok {
		if known != external {
			p.t.Fatalf("%v is %v and %v", in, known, external)
		}
		return
	}
	if other, taken := w.owner(twinOutside{in.proto, external}); taken {
		p.t.Fatalf("%v is both %v and %v", external, other, in)
	}
	if since, ok := w.heldSince[twinOutside{in.proto, external}]; ok && p.sec()-since <= 120 {
		p.t.Fatalf("%v was given away after %d s", external, p.sec()-since)
	}
	if !w.uses(external.Addr) || external.Addr.BitLen() != in.inside.Addr.BitLen() || external.Port == 0 || !isICMP(in.proto) && external.Port < 1024 {
		p.t.Fatalf("%v became %v", in, external)
	}
	for other, x := range w.mapped {
		if other.inside.Addr == in.inside.Addr && x.Addr != external.Addr {
			p.t.Fatalf("%v became %v, while %v is %v", in, external, other, x)
		}
	}
	w.mapped[in] = external
	p.outside = append(p.outside, twinOutside{in.proto, external})
}

// evicted follows the masquerade in ending a flow of a full table, which it may
// do or not, if that was one which it may end.
func (p *pair) evicted(o nat.Outcome, in twinInside, remote nat.Endpoint) bool {
	there := map[nat.Endpoint]map[twinInside]bool{}
	for f := range p.m.Flows {
		if there[f.Remote] == nil {
			there[f.Remote] = map[twinInside]bool{}
		}
		there[f.Remote][twinInside{f.Proto, f.Inside}] = true
	}
	ended := p.twin.drop(p.sec(), func(f *twinFlow) bool {
		if there[f.remote][f.twinInside] {
			return false
		}
		idle := p.sec() - f.last
		if idle <= f.limit() && (f.answered || idle <= 120) {
			p.t.Fatalf("ended %+v after %d s to make room", f, idle)
		}
		return true
	})
	if ended > 1 || ended == 1 && o == nat.Exhausted && p.twin.hasFamily(in.inside.Addr) {
		p.t.Fatalf("%d flows ended to make room for %v to %v, outcome %d", ended, in, remote, o)
	}
	return ended == 1
}

func (p *pair) want(got, want nat.Outcome) {
	if got != want {
		p.t.Helper()
		p.t.Fatalf("outcome %d, want %d; %d flows", got, want, len(p.twin.flows))
	}
}

// in lets a packet in and compares.
func (p *pair) in(proto uint8, remote, external nat.Endpoint, flags uint8) {
	inside, from, o := p.m.In(proto, remote, external, flags, p.now)
	in, ok := p.twin.owner(twinOutside{proto, external})
	f := p.twin.find(in, remote)
	if !ok || f == nil && (isICMP(proto) || !p.twin.knows(in, remote.Addr)) {
		p.want(o, nat.Unknown)
		return
	}
	p.want(o, nat.Translated)
	if inside != in.inside {
		p.t.Fatalf("%v leads to %v, want %v", external, inside, in.inside)
	}
	if f == nil {
		return
	}
	if from != f.origin {
		p.t.Fatalf("origin %d, want %d", from, f.origin)
	}
	f.saw(nat.Incoming, flags, p.sec())
}

// errors compares the verdicts on ICMP errors in both directions.
func (p *pair) errors(proto uint8, inside, remote nat.Endpoint, outside twinOutside) {
	in := twinInside{proto, inside}
	got, ok := p.m.Outside(proto, inside, remote)
	want := p.twin.knows(in, remote.Addr) && (!isICMP(proto) || remote.Port == 0)
	if ok != want || ok && got != p.twin.mapped[in] {
		p.t.Fatalf("about what %v got from %v: %v, %t, want %v", in, remote, got, ok, p.twin.mapped[in])
	}
	back, from, ok := p.m.Inside(outside.proto, remote, outside.external)
	in, _ = p.twin.owner(outside)
	f := p.twin.find(in, remote)
	if ok != (f != nil) || ok && (back != in.inside || from != f.origin) {
		p.t.Fatalf("about what %v sent to %v: %v, %d, %t, want %+v", outside, remote, back, from, ok, f)
	}
}

func (p *pair) pass(d time.Duration) {
	p.now = p.now.Add(d)
	got := p.m.Expire(p.now)
	want := p.twin.drop(p.sec(), func(f *twinFlow) bool { return p.sec()-f.last > f.limit() })
	if got != want {
		p.t.Fatalf("%d flows ended, want %d", got, want)
	}
}

// count compares the numbers.
func (p *pair) count() {
	p.t.Helper()
	s := p.m.Stats(p.now)
	resting := 0
	for _, since := range p.twin.heldSince {
		if p.sec()-since <= 120 {
			resting++
		}
	}
	sources := map[netip.Addr]bool{}
	for _, f := range p.twin.flows {
		sources[f.inside.Addr] = true
	}
	if s.Flows != len(p.twin.flows) || s.Mappings != len(p.twin.mapped) || s.Resting != resting || s.Sources != len(sources) {
		p.t.Fatalf("%+v, want %d flows, %d mappings, %d resting, %d sources", s, len(p.twin.flows), len(p.twin.mapped), resting, len(sources))
	}
}

// list compares all flows.
func (p *pair) list() {
	p.t.Helper()
	n := 0
	for f := range p.m.Flows {
		n++
		w := p.twin.find(twinInside{f.Proto, f.Inside}, f.Remote)
		if w == nil || w.origin != f.Origin || w.answered != f.Answered || w.state != f.State ||
			!f.Last.Equal(epoch.Add(time.Duration(w.last)*time.Second)) || !f.Ends.Equal(f.Last.Add(time.Duration(w.limit())*time.Second)) ||
			f.External != p.twin.mapped[w.twinInside] {
			p.t.Fatalf("%+v, want %+v", f, w)
		}
	}
	if n != len(p.twin.flows) {
		p.t.Fatalf("%d flows listed, want %d", n, len(p.twin.flows))
	}
}

// run takes operations from bytes, four for each.
func (p *pair) run(ops []byte) {
	for ; len(ops) >= 4; ops = ops[4:] {
		what, a, b, c := ops[0], ops[1], ops[2], ops[3]
		lately := p.outside[max(0, len(p.outside)-16):]
		if len(lately) == 0 {
			lately = []twinOutside{{packet.ProtoUDP, end(families[0].external, 1024)}}
		}
		f := families[a&1]
		inside := f.insideAt(a >> 1)
		proto, flags := f.protos()[int(what>>4)%3], c&(syn|fin|rst|ack)
		outside := lately[int(a)%len(lately)]
		remote := families[family4or6(outside.external)].remoteAt(outside.proto, b)
		switch what & 15 {
		case 0, 1, 2, 3, 4:
			p.out(proto, inside, f.remoteAt(proto, b), uint32(c>>5), flags)
		case 5, 6, 7, 8:
			p.in(outside.proto, remote, outside.external, flags)
		case 9: // anything goes
			f = families[b&1]
			p.out(proto, inside, f.remoteAt(packet.ProtoTCP, b), 0, flags)
			p.in(proto, remote, outside.external, flags)
		case 10:
			p.errors(proto, inside, f.remoteAt(proto, b), outside)
		case 11:
			p.pass(time.Duration(a) * 10 * time.Millisecond)
		case 12:
			p.pass(time.Duration(a) * 100 * time.Millisecond)
		case 13:
			p.pass(time.Duration(a)*time.Second/2 + time.Duration(b)*time.Millisecond)
		case 14:
			if a%16 == 0 {
				p.pass(time.Duration(b) * time.Minute)
			}
		case 15:
			if a%16 == 0 {
				p.use(b)
			} else {
				p.now = p.now.Add(time.Duration(b) * 100 * time.Millisecond) // and Expire comes late
			}
		}
		p.count()
		p.list()
	}
}

// insideAt is one of a few inside endpoints.
func (f family) insideAt(i byte) nat.Endpoint {
	return end([]netip.Addr{f.inside, f.inside2, f.inside2.Next()}[i%3], uint16(i/3%3))
}

// remoteAt is one of a few remote endpoints, as the protocol has them.
func (f family) remoteAt(proto uint8, i byte) nat.Endpoint {
	return f.to(proto, []netip.Addr{f.remote, f.remote2}[i%2], uint16(i/2%3))
}

func family4or6(e nat.Endpoint) int {
	if e.Addr.Is4() {
		return 0
	}
	return 1
}

func TestMasqueradeIsAsItsTwin(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("one goroutine only; run without -race")
	}
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5382))
		newPair(t).run(randomBytes(r, 4000))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzMasquerade(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(rand.New(rand.NewPCG(seed, 4787)), 80))
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		newPair(t).run(ops[:min(len(ops), 4000)])
	})
}
