//go:build linux

package userspace

import (
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

const (
	// batchSize is the number of frames that one UDP_SEGMENT message can carry.
	batchSize = 64

	// frameSize is the size of the largest frame, for any MTU of the device.
	frameSize = packet.EthernetHeaderLen + packet.MaxLen

	// frameStride is the distance between frames: a multiple of 64 bytes that is not a
	// multiple of a page, so that frames do not all start in the same cache set. Only pages
	// that frames touch use memory.
	frameStride = 1<<16 + 25*64
)

// device is a TAP device and the goroutine that reads it.
type device struct {
	index    int // of the kernel; a later device of the same name has another one
	file     *os.File
	raw      syscall.RawConn // of file
	outlet   atomic.Pointer[outlet]
	drops    *drops // of the endpoint
	failures sendFailures
	done     chan struct{} // closed when the goroutine has ended

	// Protected by the endpoint's lock.
	way    Way               // accepted, and the one of outlet except while it changes
	former map[Way]time.Time // ways that are still accepted, with their expiry

	// Owned by the goroutine.
	frames []byte
	sizes  [batchSize]int
	count  int
	gone   bool // the device was deleted
	batch  *underlay.Batch
}

// outlet is the destination of a device's frames. It is immutable.
type outlet struct {
	way     Way
	sockets *udpSockets
	to      underlay.Destination
	header  [geneve.HeaderLen]byte
}

func newOutlet(way Way, by *udpSockets, port uint16) *outlet {
	o := &outlet{way: way, sockets: by, to: underlay.NewDestination(netip.AddrPortFrom(way.Gateway, port))}
	geneve.Put(o.header[:], way.VNI)
	return o
}

// openDevice opens a device in the thread's network namespace, and does not read yet.
func openDevice(name string, index int, to *outlet, counts *drops) (*device, error) {
	fd, err := attach(name)
	if err != nil {
		return nil, err
	}
	d := &device{
		index: index, file: os.NewFile(uintptr(fd), name), drops: counts, done: make(chan struct{}),
		way: to.way, former: map[Way]time.Time{},
		frames: make([]byte, batchSize*frameStride), batch: underlay.NewBatch(batchSize),
	}
	if d.raw, err = d.file.SyscallConn(); err != nil {
		return nil, fmt.Errorf("read TAP device %s: %w", name, err)
	}
	d.outlet.Store(to)
	return d, nil
}

// close stops reading. The device stays.
func (d *device) close() {
	_ = d.file.Close() // already open; the goroutine uses it last
	<-d.done
}

// ended reports whether the goroutine has ended because the device was deleted.
func (d *device) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// carry sends the frames of the node's kernel, until the device is closed or deleted.
func (d *device) carry() {
	defer close(d.done)
	fill := d.fill // a method value allocates, so it is made once
	for !d.gone && d.raw.Read(fill) == nil {
		d.send()
	}
}

// fill reads the waiting frames. It reports false if there are none.
func (d *device) fill(fd uintptr) bool {
	d.count = 0
	for d.count < batchSize {
		size, err := unix.Read(int(fd), d.slot(d.count)[:frameSize])
		switch err {
		case nil:
			d.sizes[d.count] = size
			d.count++
		case unix.EINTR:
		case unix.EAGAIN:
			return d.count > 0
		default:
			d.gone = true
			return true
		}
	}
	return true
}

func (d *device) slot(i int) []byte { return d.frames[i*frameStride:] }

// send sends the frames that fill read.
func (d *device) send() {
	o := d.outlet.Load()
	for i, size := range d.sizes[:d.count] {
		frame := d.slot(i)[:size]
		d.batch.Add(o.sockets.senders[flowOf(frame)%sourcePorts], &o.to, o.header[:], frame)
	}
	if _, dropped := d.batch.Flush(); dropped > 0 {
		d.drops.add(UnderlaySend, dropped)
		d.failures.note(time.Now())
	}
}
