//go:build linux

package underlay

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poller parks one goroutine until any of several sockets is readable, or until Wake. It needs no
// goroutine and blocks no thread: an epoll descriptor watches the sockets, and Go's poller watches that
// descriptor.
//
// Go's poller is notified once per arrival (edge-triggered), including arrivals on a socket that was
// readable before. So an arrival while try runs makes try run again; none is lost.
//
// Wake bypasses the kernel: an expired read deadline resumes the parked goroutine directly.
type Poller struct {
	file    *os.File
	raw     syscall.RawConn
	fd      int                // of file; only with watched locked and closed not set
	attempt func(uintptr) bool // calls try; created once, because that allocates
	try     func() bool        // of the current Wait
	woken   atomic.Bool        // the deadline is expired, or about to be
	closed  atomic.Bool
	waiting sync.Mutex // held during Wait, so that Close can await its end

	watched struct {
		sync.Mutex // protects the fields below, and fd from being closed
		sockets    []*Socket
		paused     bool // the kernel does not tell of all sockets
	}

	epollCtl func(epoll, operation, fd int, event *unix.EpollEvent) error // epollControl
}

// readable is what a poller waits for, silent what it waits for during a pause: only that a socket fails.
var (
	readable = &unix.EpollEvent{Events: unix.EPOLLIN}
	silent   = &unix.EpollEvent{}
)

// watchRetry is how often a poller reads its sockets and asks again while the kernel refuses to watch one
// of them (ENOMEM; ENOSPC at fs.epoll.max_user_watches).
const watchRetry = 10 * time.Millisecond

// NewPoller returns a poller without sockets. It must be closed.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a poller: %w: raise the limit of open files (ulimit -n)", os.NewSyscallError("epoll_create1", err))
	}
	// os.NewFile registers only non-blocking descriptors with Go's poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make a poller: %w", os.NewSyscallError("fcntl", err))
	}
	p := &Poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd, epollCtl: epollControl}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.file.Close()
		return nil, fmt.Errorf("make a poller: %w", err)
	}
	p.attempt = func(uintptr) bool {
		// Arrivals before the sockets were watched again do not wake this goroutine, so try must
		// check once more. It may pause again and still have nothing to report.
		for !p.try() {
			if !p.resume() {
				return false
			}
		}
		return true
	}
	return p, nil
}

// Add watches s until Remove, or until s or the poller is closed. Any goroutine may call it, also during
// Wait. The caller keeps ownership of s, which one poller at a time watches. The error is net.ErrClosed if
// either is closed. If the kernel refuses to watch s, Wait tries again and reads s meanwhile.
func (p *Poller) Add(s *Socket) error {
	s.watcher.Store(p)
	if s.fd.closing.Load() {
		return net.ErrClosed
	}
	w := &p.watched
	w.Lock()
	defer w.Unlock()
	if !w.paused {
		switch err := p.control(s.watched(), unix.EPOLL_CTL_ADD, readable); {
		case errors.Is(err, net.ErrClosed):
			s.watcher.CompareAndSwap(p, nil)
			return err
		case err != nil:
			w.paused = true
			defer p.Wake()
		}
	}
	w.sockets = append(w.sockets, s)
	return nil
}

// exchange watches what is to be watched of s now instead of what was before, if p watches s.
func (p *Poller) exchange(s *Socket, before *descriptor) {
	w := &p.watched
	w.Lock()
	defer w.Unlock()
	now := s.watched()
	if now == before || !slices.Contains(w.sockets, s) {
		return
	}
	if !w.paused {
		if err := p.control(now, unix.EPOLL_CTL_ADD, readable); err != nil && !errors.Is(err, net.ErrClosed) {
			w.paused = true
			p.Wake()
		}
	}
	_ = p.control(before, unix.EPOLL_CTL_DEL, nil) // fails if it is not watched
}

// Remove stops watching s.
func (p *Poller) Remove(s *Socket) error {
	s.watcher.CompareAndSwap(p, nil)
	w := &p.watched
	w.Lock()
	defer w.Unlock()
	i := slices.Index(w.sockets, s)
	if i < 0 {
		return os.NewSyscallError("epoll_ctl", unix.ENOENT)
	}
	w.sockets = slices.Delete(w.sockets, i, i+1)
	// One of the two is watched. The Receiver may be about to exchange them, and does not know of p any more.
	err := p.control(&s.fd, unix.EPOLL_CTL_DEL, nil)
	if all := s.classes.opened(); all != nil {
		_ = p.control(&all.watch, unix.EPOLL_CTL_DEL, nil)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// Pause stops watching until Wait is about to park. The kernel notifies a watching poller of every
// datagram, even while it is busy reading. A reader that finds PauseAt messages at once will check again
// before it parks and needs no notifications. Only for the goroutine that waits.
//
// The sockets stay in the epoll descriptor. To remove and add them again costs more: the kernel allocates
// memory, and because Go's poller watches that descriptor, takes a lock that all processes of the machine share.
func (p *Poller) Pause() {
	w := &p.watched
	w.Lock()
	defer w.Unlock()
	if w.paused {
		return
	}
	for _, s := range w.sockets {
		// A socket that is being closed, or that the kernel refuses to watch, is not watched anyway.
		_ = p.control(s.watched(), unix.EPOLL_CTL_MOD, silent)
	}
	w.paused = true
}

// PauseAt is the number of messages in one Fill from which Pause pays off: it costs two system calls, a
// notification a tenth of one.
const PauseAt = 16

// resume watches again after Pause. It reports whether try must run again. If the kernel refuses to watch
// a socket, Wait tries again after watchRetry.
func (p *Poller) resume() bool {
	w := &p.watched
	w.Lock()
	defer w.Unlock()
	if !w.paused {
		return false
	}
	w.paused = false
	for _, s := range w.sockets {
		err := p.control(s.watched(), unix.EPOLL_CTL_MOD, readable)
		if errors.Is(err, unix.ENOENT) { // it was added during the pause, or refused before
			err = p.control(s.watched(), unix.EPOLL_CTL_ADD, readable)
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			w.paused = true
		}
	}
	if w.paused {
		// It may overwrite the deadline of a Wake at the same time, which then is late by watchRetry.
		_ = p.file.SetReadDeadline(time.Now().Add(watchRetry))
	}
	return !w.paused
}

// control changes what is watched of a descriptor. It allocates nothing: a busy reader pauses a thousand times a second. p.watched
// is locked.
func (p *Poller) control(d *descriptor, operation int, event *unix.EpollEvent) error {
	if p.closed.Load() || !d.acquire() {
		return net.ErrClosed
	}
	defer d.release()
	err := p.epollCtl(p.fd, operation, d.number, event)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// epollControl is epoll_ctl(2). The call is raw for the reason that kernelDrops states.
func epollControl(epoll, operation, fd int, event *unix.EpollEvent) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epoll), uintptr(operation), uintptr(fd), uintptr(unsafe.Pointer(event)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Wait calls try until it reports progress, and parks between calls. try must check every source before
// it reports no progress: a source with unread data wakes the poller only when new data arrives. One
// goroutine at a time may wait; try runs in it. The error is net.ErrClosed after Close.
func (p *Poller) Wait(try func() (progress bool)) error {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	p.try = try
	for {
		err := p.raw.Read(p.attempt)
		switch {
		case err == nil:
			return nil
		case p.closed.Load():
			return net.ErrClosed
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		// First the deadline, then the mark: a goroutine that sees the mark set has written
		// before the following try, and one that sees it cleared sets a deadline that stays.
		_ = p.file.SetReadDeadline(time.Time{})
		p.woken.Swap(false)
	}
}

// past is a deadline that has expired.
var past = time.Unix(1, 0)

// Wake makes try run again, so that it sees what the caller wrote before Wake. Any goroutine may call it
// at any time, even after Close. Until try has run, further calls cost one atomic operation.
func (p *Poller) Wake() {
	if !p.woken.Swap(true) {
		_ = p.file.SetReadDeadline(past)
	}
}

// Close ends the current Wait and returns when its try has returned; try must not call it. The sockets
// stay open.
func (p *Poller) Close() error {
	p.watched.Lock() // a user of fd finishes before, or finds closed set
	closed := p.closed.Swap(true)
	p.watched.Unlock()
	if closed {
		return net.ErrClosed
	}
	err := p.file.Close()
	p.waiting.Lock()
	defer p.waiting.Unlock()
	return err
}
