//go:build linux

package userspace

import (
	"errors"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"strait.dev/strait/underlay"
)

// sourcePorts of frames spread flows over paths; more would make batches smaller.
const sourcePorts = 4

// udpSockets is the sockets of one address family, and a goroutine that receives.
type udpSockets struct {
	senders  [sourcePorts]*underlay.Socket
	listener *underlay.Socket
	receiver *underlay.Receiver
	poller   *underlay.Poller
	table    *atomic.Pointer[table] // of the endpoint
	drops    *drops                 // of the endpoint
	done     chan struct{}          // closed when the goroutine has ended

	// The input of write. write is a field because a method value allocates.
	write   func(fd uintptr) bool
	frame   []byte
	written error
}

// openSockets opens sockets in the network namespace of the calling thread. local is the
// unspecified address of the family, as the kernel's Geneve uses it: nodes may have several
// addresses, and only the sender's is checked.
func openSockets(local netip.Addr, port uint16, t *atomic.Pointer[table], d *drops) (*udpSockets, error) {
	w := &udpSockets{table: t, drops: d, done: make(chan struct{})}
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

func (w *udpSockets) open(local netip.Addr, port uint16) (err error) {
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

// close ends the goroutine and closes the sockets.
func (w *udpSockets) close() {
	_ = w.poller.Close() // it is open
	<-w.done
	w.closeSockets()
}

func (w *udpSockets) closeSockets() {
	for _, s := range append(w.senders[:], w.listener) {
		if s != nil {
			_ = s.Close() // it is open
		}
	}
}

// receive receives until the poller is closed. Gateways are processes that segment packets
// and compute checksums, so packets that the kernel coalesced can be split without parsing
// them.
func (w *udpSockets) receive() {
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

// fill reads waiting datagrams. After an error the next arrival wakes it again.
func (w *udpSockets) fill() (progress bool) {
	messages, _ := w.receiver.Fill()
	if messages >= underlay.PauseAt {
		w.poller.Pause()
	}
	return messages > 0
}

// deliver writes a frame to the node's kernel, which accepts or drops it at once.
func (w *udpSockets) deliver(to *device, frame []byte) bool {
	w.frame = frame
	return to.raw.Write(w.write) == nil && w.written == nil
}
