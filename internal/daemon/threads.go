//go:build linux

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

// The number of threads follows the load. A packet crosses several goroutines of WireGuard; on one thread that is a function
// call, on two it is a wake-up, which costs more than the work at small rates. So a gateway starts with one thread, adds
// another when its threads are busy and the machine has idle processors, and removes it when it could do without.
const (
	threadsInterval = 100 * time.Millisecond
	threadsRest     = 4 * threadsInterval // the same at rest: each one wakes a process that has little else to do
	threadsAtRest   = 0.1                 // of the only thread: no more is used
	threadsBusy     = 0.9                 // of all threads: they are the bottleneck
	threadsSpare    = 0.5                 // idle processors needed to add a thread
	threadsIdle     = 0.75                // of one thread less: enough to carry the load
	threadsPatience = 10                  // intervals before a thread is removed
	threadsLittle   = 0.5                 // of one thread less: far more than enough
	threadsHaste    = 5                   // weight of an interval with so little load
)

// threads is the policy: a function of the measurements, interval by interval.
type threads struct {
	now, most int
	quiet     int // consecutive intervals in which one thread less was enough, weighted
}

// next returns the number of threads for the next interval. used is the number of processors that the process kept busy in
// the last one. spare returns how many of the machine's processors were idle; it is called only when needed.
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

// pause returns the time until the next measurement. used is that of the last one.
func (t *threads) pause(used float64) time.Duration {
	if t.now == 1 && used < threadsAtRest {
		return threadsRest
	}
	return threadsInterval
}

// limitInterval is how often the CPU limit is read, which changes when a pod is resized in place.
const limitInterval = 10 * time.Second

// followLoad adjusts GOMAXPROCS until ctx ends, then restores it; extra threads are added to what the load requires. It does
// nothing if GOMAXPROCS is set in the environment.
func followLoad(ctx context.Context, extra *atomic.Int32) {
	most := runtime.GOMAXPROCS(0) // processors, or less where a cgroup allows less
	if os.Getenv("GOMAXPROCS") != "" || most == 1 {
		return
	}
	defer runtime.GOMAXPROCS(most)
	limit := cpuLimit{files: cpuLimitFiles}
	limit.changed()
	checked := time.Now()
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
		if now := time.Now(); now.Sub(checked) >= limitInterval {
			if checked = now; limit.changed() {
				// Setting GOMAXPROCS has ended the runtime's own updates.
				runtime.SetDefaultGOMAXPROCS()
				most = runtime.GOMAXPROCS(0)
				t.now, t.most = min(t.now, most), most
			}
		}
		used := m.interval()
		wanted := t.next(used, m.spare) + int(extra.Load())
		ticker.Reset(t.pause(used))
		if wanted != runtime.GOMAXPROCS(0) {
			runtime.GOMAXPROCS(wanted)
		}
	}
}

// cpuLimitFiles have the CPU limit of a container, in version 2 and 1 of control groups.
var cpuLimitFiles = []string{"/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"}

// cpuLimit detects changes of the CPU limit. Only the runtime interprets it, since asking the runtime stops all threads.
type cpuLimit struct {
	files []string // the first that exists
	last  string
}

// changed reports whether the limit is another one than at the last call. A missing file is no limit.
func (l *cpuLimit) changed() bool {
	var now []byte
	for _, file := range l.files {
		var err error
		if now, err = os.ReadFile(file); err == nil {
			break
		}
	}
	before := l.last
	l.last = string(now)
	return l.last != before
}

// withExtraThread runs work with one more thread, so that packets do not wait for it: otherwise the scheduler would let it
// run for 10 ms at a time, at each of the goroutines that a packet crosses. extra is added by followLoad meanwhile.
func withExtraThread(extra *atomic.Int32, work func() error) error {
	if os.Getenv("GOMAXPROCS") != "" {
		return work()
	}
	extra.Add(1)
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	defer func() {
		// Restored here, because with one processor followLoad does not run.
		extra.Add(-1)
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)-1, 1))
	}()
	return work()
}

// meter measures processor time per interval.
type meter struct {
	at   time.Time
	used time.Duration // by this process, since it began

	idleAt time.Time
	idle   time.Duration // of the machine, all processors, since boot
}

// interval returns the number of processors that this process kept busy since the last call.
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

// spare returns how many of the machine's processors were idle since the last call; 0 if that was too long ago.
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

// idleTime parses idle and iowait in /proc/stat, in hundredths of a second (proc_stat(5)).
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
