package underlay

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/device"
)

// A port's initiations, judged in virtual time.
type judged struct {
	initiations
	now    time.Time
	random *rand.Rand
	was    [challenged + 1]int // how often each verdict fell
}

func newJudged() *judged {
	return &judged{initiations: newInitiations(), now: time.Unix(1_700_000_000, 0), random: rand.New(rand.NewPCG(1, 2))}
}

func (j *judged) anywhere() netip.Addr {
	return netip.AddrFrom4([4]byte{byte(1 + j.random.IntN(200)), byte(j.random.IntN(256)), byte(j.random.IntN(256)), byte(j.random.IntN(256))})
}

// flood judges 10 000 initiations a second.
func (j *judged) flood(span time.Duration, proven bool, from func() netip.Addr) {
	j.was = [challenged + 1]int{}
	for end := j.now.Add(span); j.now.Before(end); j.now = j.now.Add(100 * time.Microsecond) {
		j.was[j.judge(from(), false, proven, j.now)]++
	}
}

// within is whether a number is at most so much, and not far below.
func within(t *testing.T, what string, n, most int) {
	t.Helper()
	if n > most || n < most*9/10 {
		t.Errorf("%s: %d, want at most %d and hardly fewer", what, n, most)
	}
}

func TestT8_InitiationsFromMadeUpAddressesAreBounded(t *testing.T) {
	t.Parallel()
	j := newJudged()
	j.flood(10*time.Second, false, j.anywhere)
	within(t, "admitted", j.was[admitted], unprovenBurst+10*200)
	within(t, "challenged", j.was[challenged], cookieBurst+10*5000)

	j.now = j.now.Add(time.Second)
	j.flood(unprovenBurst*100*time.Microsecond, false, j.anywhere)
	if j.was[admitted] != unprovenBurst {
		t.Errorf("after a quiet second %d of %d are admitted", j.was[admitted], unprovenBurst)
	}
}

func TestT8_ACallerThatProvesItsAddressComesThroughAFlood(t *testing.T) {
	t.Parallel()
	for name, bots := range map[string]int{"one address": 1, "250 addresses": 250} {
		j := newJudged()
		from := func() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(j.random.IntN(bots))}) }
		j.flood(5*time.Second, false, from)
		peers, asked := 0, 0
		for range 100 {
			j.flood(100*time.Millisecond, false, from)
			peer := j.anywhere()
			switch j.judge(peer, false, false, j.now) {
			case challenged:
				if j.judge(peer, false, true, j.now) == admitted {
					peers++
				}
			case admitted:
				peers++
			}
			asked++
		}
		if peers < asked*8/10 { // some share a source's place with one of the flood
			t.Errorf("%s: %d of %d peers came through", name, peers, asked)
		}
	}
}

func TestT8_PeersOfALinkAreAdmittedDuringAFloodFromForgedAddresses(t *testing.T) {
	t.Parallel()
	j := newJudged()
	peer := netip.MustParseAddr("198.51.100.1")
	j.flood(time.Second, false, j.anywhere)
	for range 10 {
		if v := j.judge(peer, true, false, j.now); v != admitted {
			t.Fatalf("verdict %d", v)
		}
		j.flood(time.Second, false, j.anywhere)
	}
	before := j.was
	for range 10_000 {
		j.was[j.judge(peer, true, false, j.now)]++
	}
	if n := j.was[admitted] - before[admitted]; n > sourceBurst+unprovenBurst {
		t.Errorf("under the address of a peer %d are admitted at once", n)
	}
}

func TestT8_CallersThatProveTheirAddressHaveAShareEach(t *testing.T) {
	t.Parallel()
	j := newJudged()
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
	j.flood(10*time.Second, true, func() netip.Addr { return one })
	within(t, "of one address", j.was[admitted], sourceBurst+10*20)
	if v := j.judge(other, false, true, j.now); v != admitted {
		t.Errorf("another address: verdict %d", v)
	}

	j = newJudged()
	j.flood(10*time.Second, true, j.anywhere)
	within(t, "of all", j.was[admitted], provenBurst+10*500)
	if j.was[challenged] != 0 {
		t.Error("who showed a cookie got another")
	}
}

func TestT8_AnIPv6NetworkIsOneCaller(t *testing.T) {
	t.Parallel()
	j := newJudged()
	j.flood(10*time.Second, true, func() netip.Addr {
		a := netip.MustParseAddr("2001:db8::").As16()
		binary.BigEndian.PutUint64(a[8:], j.random.Uint64())
		return netip.AddrFrom16(a)
	})
	within(t, "of a /64", j.was[admitted], sourceBurst+10*20)
}

func TestJudgingAllocatesNothing(t *testing.T) {
	j := newJudged()
	if n := testing.AllocsPerRun(100, func() { j.judge(j.anywhere(), false, false, j.now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAnInitiationGoesToTheLinksOfItsKey(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	peer, one := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, nil), 0)
	two, three := openLink(t, m.Link(otherKey, anyKey, nil), one.port), openLink(t, m.Link(otherKey, anyKey, nil), one.port)
	peer.send(t, one.endpoint(t, "127.0.0.1"), initiationFor(otherKey, 5), initiation(6))
	equal(t, one.next(t, 1), [][]byte{initiation(6)})
	equal(t, two.next(t, 1), [][]byte{initiationFor(otherKey, 5)})
	equal(t, three.next(t, 1), [][]byte{initiationFor(otherKey, 5)})
	if c := m.Counters(); c != (Counters{}) {
		t.Errorf("counted %+v", c)
	}
}

// Of two initiations that cross, one prevails: its end does not process the other before its own is answered, or is not
// in time.
func TestF1_AnInitiationThatCrossesAnotherWaitsForItsAnswer(t *testing.T) {
	t.Parallel()
	peer := openLink(t, NewMux(Options{}).Link(otherKey, anyKey, nil), 0)
	answered, unanswered := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
	for _, l := range []*opened{answered, unanswered} {
		l.send(t, peer.endpoint(t, "127.0.0.1"), initiationFor(otherKey, 5))
	}
	peer.next(t, 2)
	peer.send(t, answered.endpoint(t, "127.0.0.1"), initiation(6), response(7, 5))
	equal(t, answered.next(t, 1), [][]byte{response(7, 5)})
	peer.send(t, unanswered.endpoint(t, "127.0.0.1"), initiation(6), transport(5, 40))
	equal(t, unanswered.next(t, 2), [][]byte{transport(5, 40), initiation(6)})
	peer.send(t, answered.endpoint(t, "127.0.0.1"), transport(5, 48))
	equal(t, answered.next(t, 1), [][]byte{transport(5, 48)})
	// The end that does not prevail processes the other at once.
	peer.send(t, answered.endpoint(t, "127.0.0.1"), initiation(8))
	answered.next(t, 1)
	answered.send(t, peer.endpoint(t, "127.0.0.1"), initiationFor(otherKey, 9))
	equal(t, peer.next(t, 1), [][]byte{initiationFor(otherKey, 9)})
}

func TestT8_AnInitiationForNoKeyIsDroppedAndCounted(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	peer, one := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, nil), 0)
	damaged := initiation(5)
	damaged[40]++
	for links := range uint64(2) { // a link that is alone, and one of two
		if links == 1 {
			openLink(t, m.Link(anyKey, otherKey, nil), one.port)
		}
		peer.send(t, one.endpoint(t, "127.0.0.1"), damaged, initiation(5)[:initiationSize-1], append(initiation(5), 0), initiation(6))
		equal(t, one.next(t, 1), [][]byte{initiation(6)})
		if c := m.Counters(); c != (Counters{Unknown: 3 * (links + 1)}) {
			t.Errorf("counted %+v", c)
		}
	}
}

func TestT8_AddressesThatALinkSendsDataToAreKnownAndReceiversOfCookiesAreNot(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	peer, link := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, nil), 0)
	at := netip.MustParseAddr("127.0.0.1")
	talks := func() bool { return talkTo(m.open.Load().byKey[0], at) }
	link.send(t, peer.endpoint(t, at.String()), wireguard(messageCookie, 64, 4, 1))
	if talks() {
		t.Error("a cookie makes an unknown sender known")
	}
	link.send(t, peer.endpoint(t, at.String()), transport(1, 32))
	if !talks() {
		t.Error("a peer is not known")
	}
}

// A sender that initiates too often gets a cookie, and is admitted with it: WireGuard's own
// exchange (white paper, section 5.4.7), also with a WireGuard that knows nothing of this.
func TestT8_ACookieOpensThePortAgain(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	peer, link := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, nil), 0)
	var caller device.CookieGenerator
	caller.Init(anyKey)
	call := func() {
		message := wireguard(messageInitiation, initiationSize, 4, 77)
		caller.AddMacs(message)
		peer.send(t, link.endpoint(t, "127.0.0.1"), message)
	}
	// Other callers have emptied the bucket of initiations without a cookie for an hour.
	unproven, later := &m.sessions()[0].port.initiations.unproven, time.Now().Add(time.Hour)
	for unproven.Take(later, unprovenInterval, unprovenBurst) {
	}
	replies, arrived := received(peer), received(link)
	call()
	reply := <-replies
	cookie := device.MessageCookieReply{}
	if n, err := binary.Decode(reply, binary.LittleEndian, &cookie); err != nil || n != len(reply) || cookie.Type != messageCookie || cookie.Receiver != 77 {
		t.Fatalf("the answer is %x: %v", reply, err)
	}
	if !caller.ConsumeReply(&cookie) {
		t.Fatal("the caller cannot read its cookie")
	}
	refused := m.Counters().Initiations
	call()
	<-arrived
	if now := m.Counters().Initiations; now != refused {
		t.Errorf("%d were refused, before the cookie %d", now, refused)
	}
}

// received is what arrives at a link until it is closed.
func received(by *opened) <-chan []byte {
	datagrams := make(chan []byte, 1024)
	go func() {
		for {
			n, err := by.receive(by.packets, by.sizes, by.senders)
			if err != nil {
				return
			}
			for i := range n {
				datagrams <- bytes.Clone(by.packets[i][:by.sizes[i]])
			}
		}
	}()
	return datagrams
}

// BenchmarkInitiation is what refusing an initiation takes, and what that spares.
func BenchmarkInitiation(b *testing.B) {
	var cookies device.CookieChecker
	cookies.Init(anyKey)
	message, from := initiation(5), newEndpoint(netip.MustParseAddrPort("192.0.2.1:51820"), netip.Addr{})
	b.Run("first MAC", func(b *testing.B) {
		for b.Loop() {
			cookies.CheckMAC1(message)
		}
	})
	b.Run("verdict", func(b *testing.B) {
		j := newJudged()
		for b.Loop() {
			j.now = j.now.Add(time.Microsecond)
			j.judge(from.DstIP(), false, false, j.now)
		}
	})
	b.Run("cookie", func(b *testing.B) {
		for b.Loop() {
			if _, err := cookies.CreateReply(message, 5, from.DstToBytes()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("key agreement", func(b *testing.B) {
		own, other := newKey(b), newKey(b).PublicKey()
		for b.Loop() {
			if _, err := own.ECDH(other); err != nil {
				b.Fatal(err)
			}
		}
	})
}
