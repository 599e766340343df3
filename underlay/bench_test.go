package underlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
)

// BenchmarkSendAndReceive sends batches of 64 datagrams over loopback and receives
// them in the same goroutine. Both kernel halves are included.
func BenchmarkSendAndReceive(b *testing.B) {
	for _, size := range []int{64, 1400} {
		for _, c := range []struct {
			name string
			o    Options
		}{
			{"plain", Options{DisableGRO: true, DisableGSO: true}},
			{"GSO", Options{DisableGRO: true}},
			{"GSO+GRO", Options{}},
		} {
			b.Run(fmt.Sprintf("%dB/%s", size, c.name), func(b *testing.B) {
				to, from := open(b, loopback4, c.o), open(b, loopback4, c.o)
				batch, r, d := NewBatch(64), NewReceiver(to), destination(to)
				const head = 22
				p := payload(0, size)
				measure(b, 64, func() {
					for range 64 {
						batch.Add(from, d, p[:head], p[head:])
					}
					if _, dropped := batch.Flush(); dropped > 0 {
						b.Fatalf("%d dropped", dropped)
					}
					for left := 64; left > 0; {
						if _, err := r.Fill(); err != nil {
							b.Fatal(err)
						}
						for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
							left--
						}
					}
				})
			})
		}
	}
}

// BenchmarkBatch is what collecting and laying out costs without the kernel.
func BenchmarkBatch(b *testing.B) {
	for _, destinations := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("%dDestinations", destinations), func(b *testing.B) {
			s := open(b, loopback4, Options{})
			to := make([]Destination, destinations)
			for i := range to {
				to[i] = *destination(s)
				to[i].name[nameAddress4+3] = byte(i)
				to[i].hash ^= uint32(i) * hashFactor
			}
			batch := NewBatch(128)
			batch.send = discard
			p := payload(0, 1400)
			measure(b, 128, func() {
				for i := range 128 {
					batch.Add(s, &to[i%destinations], p[:22], p[22:])
				}
				batch.Flush()
			})
		})
	}
}

// BenchmarkWakeAndWait is the hand-over of one event between two goroutines and back.
func BenchmarkWakeAndWait(b *testing.B) {
	ping, pong := newPoller(b), newPoller(b)
	var asked, answered atomic.Int64
	done := waiting(ping, func() bool {
		if n := asked.Load(); n != answered.Load() {
			answered.Store(n)
			pong.Wake()
		}
		return false
	})
	for n := int64(1); b.Loop(); n++ {
		asked.Store(n)
		ping.Wake()
		if err := pong.Wait(func() bool { return answered.Load() == n }); err != nil {
			b.Fatal(err)
		}
	}
	ping.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		b.Fatal(err)
	}
}

// BenchmarkQueues is what a Receiver and a Poller spend on 16 queues while datagrams are sorted.
func BenchmarkQueues(b *testing.B) {
	s, err := Listen(loopback4, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	s.Classify(BySource)
	p, err := NewPoller()
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	if err := p.Add(s); err != nil || !s.classes.spread() {
		b.Fatal("the kernel does not sort datagrams", err)
	}
	q := s.classes.queues.Load()
	look := func(want bool) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if q.holding() != 0 != want {
					b.Fatal("wrong queues hold something")
				}
			}
		}
	}
	b.Run("look/empty", look(false))
	b.Run("pause", func(b *testing.B) {
		for b.Loop() {
			p.Pause()
			p.resume()
		}
	})
	batch := NewBatch(1)
	batch.Add(s, destination(s), nil, []byte("?"))
	batch.Flush()
	b.Run("look/one", look(true))
}

// binds are ours and WireGuard's own.
var binds = []struct {
	name string
	make func() conn.Bind
}{
	{"ours", func() conn.Bind { return NewMux(Options{}).Link(anyKey, otherKey, nil) }},
	{"StdNetBind", conn.NewStdNetBind},
}

// cpuTime is what the process used so far, in user and system mode. On a shared
// machine it says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// measure runs once per batch of datagrams and reports CPU time per datagram.
func measure(b *testing.B, batch int, run func()) {
	run()
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N*batch), "cpu-ns/datagram")
}

// BenchmarkBindReceive sends 128 datagrams and receives them through a bind; the
// sender is the same for both binds. One that does not use UDP_SEGMENT is what a
// pod's socket sees: no coalescing.
func BenchmarkBindReceive(b *testing.B) {
	for _, c := range []struct {
		name string
		o    Options
	}{{"uncoalesced", Options{DisableGSO: true}}, {"coalesced", Options{}}} {
		for _, bind := range binds {
			b.Run(c.name+"/"+bind.name, func(b *testing.B) {
				from, link := open(b, loopback4, c.o), openLink(b, bind.make(), 0)
				to := NewDestination(netip.AddrPortFrom(loopback4.Addr(), link.port))
				batch, p := NewBatch(conn.IdealBatchSize), payload(0, 1400)
				measure(b, conn.IdealBatchSize, func() {
					for range conn.IdealBatchSize {
						batch.Add(from, &to, nil, p)
					}
					batch.Flush()
					for left := conn.IdealBatchSize; left > 0; {
						n, err := link.receive(link.packets, link.sizes, link.senders)
						if err != nil {
							b.Fatal(err)
						}
						left -= n
					}
				})
			})
		}
	}
}

// BenchmarkSharedPort receives 128 datagrams for one link: the only one of its port, the first of
// two, which reads the port itself, and the second, which gets copies from the first.
func BenchmarkSharedPort(b *testing.B) {
	for _, c := range []struct {
		name  string
		links int
		to    uint32
	}{{"alone", 1, 1001}, {"first", 2, 1001}, {"second", 2, 2002}} {
		for _, size := range []int{64, 1400} {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) {
				m := NewMux(Options{})
				from, links := open(b, loopback4, Options{}), []*opened{openLink(b, m.Link(anyKey, otherKey, nil), 0)}
				if c.links == 2 {
					links = append(links, openLink(b, m.Link(anyKey, otherKey, nil), links[0].port))
				}
				sink := open(b, loopback4, Options{})
				for i, l := range links {
					to, err := l.ParseEndpoint(sink.LocalAddr().String())
					if err != nil {
						b.Fatal(err)
					}
					l.send(b, to, initiation(1001*uint32(i+1)))
				}
				var arrived atomic.Int64
				more := make(chan struct{}, 1)
				var running sync.WaitGroup
				for _, l := range links {
					running.Go(func() {
						for {
							n, err := l.receive(l.packets, l.sizes, l.senders)
							if err != nil {
								return
							}
							arrived.Add(int64(n))
							select {
							case more <- struct{}{}:
							default:
							}
						}
					})
				}
				to := NewDestination(netip.AddrPortFrom(loopback4.Addr(), links[0].port))
				batch, p := NewBatch(conn.IdealBatchSize), transport(c.to, size)
				measure(b, conn.IdealBatchSize, func() {
					want := arrived.Load() + conn.IdealBatchSize
					for range conn.IdealBatchSize {
						batch.Add(from, &to, nil, p)
					}
					batch.Flush()
					for arrived.Load() < want {
						<-more
					}
				})
				for _, l := range links {
					l.Close()
				}
				running.Wait()
			})
		}
	}
}

// BenchmarkBindSend sends batches of 128 datagrams through a bind to a socket whose
// queue stays full.
func BenchmarkBindSend(b *testing.B) {
	for _, bind := range binds {
		b.Run(bind.name, func(b *testing.B) {
			sink, link := open(b, loopback4, Options{ReceiveBuffer: 4 << 10}), openLink(b, bind.make(), 0)
			to, err := link.ParseEndpoint(sink.LocalAddr().String())
			if err != nil {
				b.Fatal(err)
			}
			measure(b, conn.IdealBatchSize, func() {
				// StdNetBind joins datagrams by appending to the first: it needs room.
				for i := range link.packets {
					link.packets[i] = link.packets[i][:1400]
				}
				if err := link.Send(link.packets, to); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
