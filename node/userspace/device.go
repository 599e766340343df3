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
	// batchSize is how many frames are sent together at most: what one UDP_SEGMENT
	// message may carry.
	batchSize = 64

	// frameSize is that of the largest frame, whatever the device's MTU is made.
	frameSize = packet.EthernetHeaderLen + packet.MaxLen

	// frameStride is the distance between frames: a multiple of 64 bytes that is no
	// multiple of a page, so that frames do not all begin in the same cache set. Only
	// what frames touch becomes memory.
	frameStride = 1<<16 + 25*64
)

// device is a TAP device and the goroutine that reads it.
type device struct {
	index   int // of the kernel, which no later device of that name has
	file    *os.File
	raw     syscall.RawConn // of file
	outlet  atomic.Pointer[outlet]
	drops   *drops // of the endpoint
	trouble trouble
	done    chan struct{} // closed when the goroutine has ended

	// former are ways that frames are still taken from, and until when. The endpoint's
	// lock protects it.
	former map[Way]time.Time

	// Of the goroutine.
	frames []byte
	sizes  [batchSize]int
	count  int
	gone   bool // the device is
	batch  *underlay.Batch
}

// outlet is where the frames of a device go. It does not change.
type outlet struct {
	way    Way
	wire   *wire
	to     underlay.Destination
	header [geneve.HeaderLen]byte
}

func newOutlet(way Way, by *wire, port uint16) *outlet {
	o := &outlet{way: way, wire: by, to: underlay.NewDestination(netip.AddrPortFrom(way.Gateway, port))}
	geneve.Put(o.header[:], way.VNI)
	return o
}

// openDevice opens a device in the network namespace of the calling thread. It is not read
// yet.
func openDevice(name string, index int, to *outlet, counts *drops) (*device, error) {
	fd, err := attach(name)
	if err != nil {
		return nil, err
	}
	d := &device{
		index: index, file: os.NewFile(uintptr(fd), name), drops: counts, done: make(chan struct{}),
		former: map[Way]time.Time{},
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
	_ = d.file.Close() // it is open; the goroutine is the last to use it
	<-d.done
}

// ended reports whether the goroutine has: somebody deleted the device.
func (d *device) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// carry sends what the node's kernel gives, until the device is closed or gone.
func (d *device) carry() {
	defer close(d.done)
	fill := d.fill // once: it allocates
	for !d.gone && d.raw.Read(fill) == nil {
		d.send()
	}
}

// fill reads what waits. It reports false if nothing does.
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

// send sends what fill read.
func (d *device) send() {
	o := d.outlet.Load()
	for i, size := range d.sizes[:d.count] {
		frame := d.slot(i)[:size]
		d.batch.Add(o.wire.senders[flowOf(frame)%sourcePorts], &o.to, o.header[:], frame)
	}
	if _, dropped := d.batch.Flush(); dropped > 0 {
		d.drops.add(UnderlaySend, dropped)
		d.trouble.note(time.Now())
	}
}
