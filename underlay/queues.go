//go:build linux

package underlay

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// queues are the sockets of the classes of a Socket. While datagrams are sorted, most of them are empty, and to read an empty one
// takes a system call. So an epoll descriptor watches all of them: one system call tells which hold something, and a Poller has one
// descriptor to watch instead of all.
type queues struct {
	sockets []*Socket // by class
	watch   descriptor
	ready   []unix.EpollEvent // memory for the Receiver
}

// newQueues returns the queues of these sockets, which their caller still owns. close releases the rest.
func newQueues(first *Socket, others []*Socket) (*queues, error) {
	q := &queues{sockets: append([]*Socket{first}, others...)}
	q.ready = make([]unix.EpollEvent, len(q.sockets))
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	q.watch.own(fd)
	for class, s := range q.sockets {
		event := &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(class)}
		if err := s.control(func(of int) error { return unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, of, event) }); err != nil {
			q.close()
			return nil, os.NewSyscallError("epoll_ctl", err)
		}
	}
	return q, nil
}

// holding returns the classes that hold something, as bits: all if the kernel does not tell. Only for the Receiver.
func (q *queues) holding() (classes uint) {
	if !q.watch.acquire() {
		return 0
	}
	defer q.watch.release()
	n, errno := epollLook(q.watch.number, q.ready)
	if errno != 0 {
		return ^uint(0)
	}
	for _, event := range q.ready[:n] {
		classes |= 1 << event.Fd
	}
	return classes
}

// close ends watching. The sockets stay open.
func (q *queues) close() { q.watch.close(func(int) {}) }

// epollLook is epoll_pwait(2) without waiting. The runtime is not told of it: it would take the processor from this goroutine.
func epollLook(epoll int, ready []unix.EpollEvent) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(ready))), uintptr(len(ready)), 0, 0, 0)
	return count(r, errno), errno
}
