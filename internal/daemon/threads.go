package daemon

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The number of threads follows the load. A packet crosses several goroutines of
// WireGuard's on its way; on one thread that is a function call, on two it is a
// wake-up, which costs more than the work at small rates. So a gateway begins
// with one, takes another when the ones it has are busy and the machine has
// processors to spare, and gives it back when it could do without.
const (
	threadsInterval = 100 * time.Millisecond
	threadsBusy     = 0.9  // of all threads: they are the bottleneck
	threadsSpare    = 0.5  // idle processors that make another thread worth having
	threadsIdle     = 0.75 // of one thread less: it would carry the load
	threadsPatience = 10   // intervals before one is given back
	threadsLittle   = 0.5  // of one thread less: it would carry the load with ease
	threadsHaste    = 5    // intervals that one with so little load counts for
)

// threads is the policy: a function of what it is told, interval by interval.
type threads struct {
	now, most int
	quiet     int // intervals in a row in which one thread less would have done, weighted
}

// next gives the number of threads for the next interval. used is how many
// processors the process kept busy in the last one. spare tells how many of the
// machine's were idle in it; it is asked only when that matters.
func (t *threads) next(used float64, spare func() float64) int {
	switch {
	case used >= threadsBusy*float64(t.now):
		t.quiet = 0
		if t.now < t.most && spare() >= threadsSpare {
			t.now++
		}
	case t.now > 1 && used < threadsIdle*float64(t.now-1):
		if used < threadsLittle*float64(t.now-1) {
			t.quiet += threadsHaste
		} else {
			t.quiet++
		}
		if t.quiet >= threadsPatience {
			t.quiet = 0
			t.now--
		}
	default:
		t.quiet = 0
	}
	return t.now
}

// followLoad adjusts GOMAXPROCS until ctx ends, then restores it; extra threads come
// on top of what the load asks for. It leaves a GOMAXPROCS from the environment
// alone.
func followLoad(ctx context.Context, extra *atomic.Int32) {
	most := runtime.GOMAXPROCS(0) // processors, or less where a cgroup allows less
	if os.Getenv("GOMAXPROCS") != "" || most == 1 {
		return
	}
	defer runtime.GOMAXPROCS(most)
	t := threads{now: 1, most: most}
	runtime.GOMAXPROCS(t.now)

	var m meter
	m.interval()
	for ticker := time.NewTicker(threadsInterval); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
		if wanted := t.next(m.interval(), m.spare) + int(extra.Load()); wanted != runtime.GOMAXPROCS(0) {
			runtime.GOMAXPROCS(wanted)
		}
	}
}

// withExtraThread runs work on a thread more, so that packets need not wait for it: the
// scheduler would let it go on for 10 ms at a time, at each of the goroutines that
// a packet crosses. extra is what followLoad adds meanwhile.
func withExtraThread(extra *atomic.Int32, work func() error) error {
	if os.Getenv("GOMAXPROCS") != "" {
		return work()
	}
	extra.Add(1)
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	defer func() {
		// Given back here, since with one processor nobody follows the load.
		extra.Add(-1)
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)-1, 1))
	}()
	return work()
}

// meter measures processor time from interval to interval.
type meter struct {
	at   time.Time
	used time.Duration // by this process, since it began

	idleAt time.Time
	idle   time.Duration // of the machine, all processors, since boot
}

// interval gives how many processors this process kept busy since the last call.
func (m *meter) interval() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	now, used := time.Now(), time.Duration(u.Utime.Nano()+u.Stime.Nano())
	busy := float64(used-m.used) / float64(now.Sub(m.at))
	m.at, m.used = now, used
	return busy
}

// spare gives how many of the machine's processors were idle since the last
// call; 0 when that was too long ago to say anything.
func (m *meter) spare() float64 {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	now, idle := time.Now(), idleTime(stat)
	since := now.Sub(m.idleAt)
	spare := float64(idle-m.idle) / float64(since)
	m.idleAt, m.idle = now, idle
	if since > 5*threadsInterval {
		return 0
	}
	return spare
}

// idleTime reads the fourth and fifth figure of the first line of /proc/stat:
// idle and waiting for I/O, in hundredths of a second (proc_stat(5)).
func idleTime(stat []byte) time.Duration {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 6 {
		return 0
	}
	idle, _ := strconv.ParseInt(string(fields[4]), 10, 64) // the kernel's own figures
	wait, _ := strconv.ParseInt(string(fields[5]), 10, 64)
	return time.Duration(idle+wait) * 10 * time.Millisecond
}
