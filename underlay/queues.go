package underlay

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// queues are the sockets of the classes of a Socket. While datagrams are sorted, most of them are empty, and to read an empty one
// takes a system call. ppoll(2) takes one for all.
type queues struct {
	sockets []*Socket     // by class
	polls   []unix.PollFd // the same, for the Receiver
}

func newQueues(first *Socket, others []*Socket) *queues {
	q := &queues{sockets: append([]*Socket{first}, others...)}
	for _, s := range q.sockets {
		q.polls = append(q.polls, unix.PollFd{Fd: int32(s.fd.number), Events: unix.POLLIN})
	}
	return q
}

// holding returns the classes that hold something, as bits: all if the kernel does not tell, for instance because a signal is
// pending. One that another goroutine closes meanwhile may count, too.
func (q *queues) holding() (classes uint) {
	if poll(q.polls) != 0 {
		return ^uint(0)
	}
	for class := range q.polls {
		if q.polls[class].Revents != 0 {
			classes |= 1 << class
		}
	}
	return classes
}

// poll is ppoll(2) without waiting. The runtime is not told of it: it would take the processor from this goroutine.
func poll(of []unix.PollFd) unix.Errno {
	var now unix.Timespec
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(of))), uintptr(len(of)), uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno
}
