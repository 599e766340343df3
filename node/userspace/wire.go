package userspace

import (
	"errors"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"strait.dev/strait/underlay"
)

// sourcePorts is how many ports frames leave from. With several of them the underlay can
// spread flows over paths; more would cut batches smaller.
const sourcePorts = 4

// wire is the sockets of one address family, and a goroutine that receives.
type wire struct {
	senders  [sourcePorts]*underlay.Socket
	listener *underlay.Socket
	receiver *underlay.Receiver
	poller   *underlay.Poller
	table    *atomic.Pointer[table] // of the endpoint
	drops    *drops                 // of the endpoint
	done     chan struct{}          // closed when the goroutine has ended

	// What write gives to a device. write is made once, since making it allocates.
	write   func(fd uintptr) bool
	frame   []byte
	written error
}

// openWire opens sockets in the network namespace of the calling thread. local stands for
// all addresses of the family, as a kernel's Geneve takes them: nodes may have several,
// and what counts is who sends.
func openWire(local netip.Addr, port uint16, t *atomic.Pointer[table], d *drops) (*wire, error) {
	w := &wire{table: t, drops: d, done: make(chan struct{})}
	w.write = func(fd uintptr) bool {
		_, w.written = unix.Write(int(fd), w.frame)
		return true
	}
	if err := w.open(local, port); err != nil {
		w.closeSockets()
		return nil, err
	}
	go w.receive()
	return w, nil
}

func (w *wire) open(local netip.Addr, port uint16) (err error) {
	if w.listener, err = underlay.Listen(netip.AddrPortFrom(local, port), underlay.Options{}); err != nil {
		return err
	}
	for i := range w.senders {
		if w.senders[i], err = underlay.Listen(netip.AddrPortFrom(local, 0), underlay.Options{}); err != nil {
			return err
		}
	}
	if w.poller, err = underlay.NewPoller(); err != nil {
		return err
	}
	if err := w.poller.Add(w.listener); err != nil {
		return errors.Join(err, w.poller.Close())
	}
	w.receiver = underlay.NewReceiver(w.listener)
	return nil
}

// close ends the goroutine and closes the sockets. Who still sends by them loses what it
// sends.
func (w *wire) close() {
	_ = w.poller.Close() // it is open
	<-w.done
	w.closeSockets()
}

func (w *wire) closeSockets() {
	for _, s := range append(w.senders[:], w.listener) {
		if s != nil {
			_ = s.Close() // it is open
		}
	}
}

// receive goes on until the poller is closed. Gateways are processes that cut segments and
// finish checksums, so that what the kernel joined can be cut without looking inside.
func (w *wire) receive() {
	defer close(w.done)
	for w.poller.Wait(w.fill) == nil {
		t := *w.table.Load()
		for {
			datagram, from, ok := w.receiver.Next()
			if !ok {
				break
			}
			to, frame, why := t.accept(datagram, from.Addr())
			if why == NoReason && !w.deliver(to, frame) {
				why = DeviceWrite
			}
			if why != NoReason {
				w.drops.add(why, 1)
			}
		}
	}
}

// fill gets what waits. After an error there is something again with the next arrival.
func (w *wire) fill() (progress bool) {
	messages, _ := w.receiver.Fill()
	if messages >= underlay.PauseAt {
		w.poller.Pause()
	}
	return messages > 0
}

// deliver gives a frame to the node's kernel, which takes it at once or not at all.
func (w *wire) deliver(to *device, frame []byte) bool {
	w.frame = frame
	return to.raw.Write(w.write) == nil && w.written == nil
}
