// Command wakeups measures whether an idle processor always wakes: wakeups SECONDS.
//
// One thread is alone on the last processor, which therefore halts whenever the thread waits. In turn, it
// waits for a timer, which is an interrupt of its own processor, and for a byte in a pipe, which is an interrupt from
// processor 0. A wait that ends late shows a lost interrupt, without a gateway or a network. The lengths are random
// with a fixed seed: the timer's up to 1 ms, the other's 2 to 4 ms and, one time in 100, half a second.
//
// It must be started on processor 0 (taskset 1 wakeups), so that the threads of Go's runtime stay there. It prints
// "wakeups: timer=N late=SECONDS pipe=N late=SECONDS", with the longest delays.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	seconds, err := strconv.Atoi(os.Args[len(os.Args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "wakeups: usage: wakeups SECONDS")
		os.Exit(2)
	}
	if err := run(time.Duration(seconds) * time.Second); err != nil {
		fmt.Fprintln(os.Stderr, "wakeups:", err)
		os.Exit(1)
	}
}

// delays are the delays of one type of wait.
type delays struct {
	count   int
	longest time.Duration
}

func (d *delays) add(late time.Duration) {
	d.count++
	d.longest = max(d.longest, late)
}

func run(length time.Duration) error {
	var there, back [2]int // pipes to and from the thread on the last processor
	for _, p := range []*[2]int{&there, &back} {
		if err := unix.Pipe(p[:]); err != nil {
			return err
		}
	}
	var timer, pipe delays
	ended := make(chan error, 1)
	go func() { ended <- wait(there[0], back[1], &timer) }()

	runtime.LockOSThread()
	random := rand.New(rand.NewPCG(1, 1))
	for started := time.Now(); time.Since(started) < length; {
		idle := 2*time.Millisecond + time.Duration(random.Int64N(2e6))
		if random.IntN(100) == 0 {
			idle = 500 * time.Millisecond
		}
		if _, err := sleep(idle); err != nil {
			return err
		}
		sent := time.Now()
		if err := errors.Join(transfer(unix.Write, there[1]), transfer(unix.Read, back[0])); err != nil {
			return err
		}
		pipe.add(time.Since(sent))
	}
	unix.Close(there[1])
	err := <-ended
	fmt.Printf("wakeups: timer=%d late=%.3f pipe=%d late=%.3f\n",
		timer.count, timer.longest.Seconds(), pipe.count, pipe.longest.Seconds())
	return err
}

// wait runs on the last processor. It ends when its input pipe is closed.
func wait(from, to int, timer *delays) error {
	runtime.LockOSThread()
	processors, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*") // runtime.NumCPU counts only processor 0
	if err != nil {
		return err
	}
	var last unix.CPUSet
	last.Set(len(processors) - 1)
	if err := unix.SchedSetaffinity(0, &last); err != nil {
		return err
	}
	for random := rand.New(rand.NewPCG(1, 2)); ; {
		switch err := transfer(unix.Read, from); {
		case err == nil:
		case errors.Is(err, errEnded):
			return nil
		default:
			return err
		}
		if err := transfer(unix.Write, to); err != nil {
			return err
		}
		late, err := sleep(50*time.Microsecond + time.Duration(random.Int64N(1e6)))
		if err != nil {
			return err
		}
		timer.add(late)
	}
}

// sleep blocks the thread and returns the delay beyond the requested time.
func sleep(length time.Duration) (late time.Duration, err error) {
	before := time.Now()
	interval := unix.NsecToTimespec(length.Nanoseconds())
	for err = unix.Nanosleep(&interval, &interval); errors.Is(err, unix.EINTR); {
		err = unix.Nanosleep(&interval, &interval)
	}
	return time.Since(before) - length, err
}

var errEnded = errors.New("the pipe has ended")

// transfer moves one byte with unix.Read or unix.Write and blocks the thread until then.
func transfer(call func(int, []byte) (int, error), fd int) error {
	for {
		n, err := call(fd, make([]byte, 1))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return errEnded
		default:
			return nil
		}
	}
}
