// Command watch observes gateway processes from outside and reports the ones that stop: watch INTERVAL.
//
// A running gateway always has timers of a second or less. In each interval watch reads how often and how long the
// kernel ran each thread of each gateway (/proc/PID/task/TID/schedstat). A gateway without a running thread for
// stallAfter has stalled: watch prints the kernel's state of it and of its timers, prints that again later, and then
// sends SIGQUIT and prints the goroutines. Before that, watch sends no packets and no signals: either could end the
// stall.
//
// One thread per processor sleeps on that processor, and watch reports how late it wakes: this also shows lost timer
// interrupts of a processor, without a gateway.
//
// watch ends with SIGTERM. Its last line is "watch: starts=N stalls=N gap=SECONDS late=SECONDS,SECONDS...".
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stallAfter = 3 * time.Second  // the first report
	moreAfter  = 6 * time.Second  // the second one: differences show activity
	quitAfter  = 10 * time.Second // SIGQUIT
	canary     = 300 * time.Millisecond
)

// process is a gateway under observation.
type process struct {
	pid     string
	log     *os.File  // what it writes to stderr
	ran     string    // schedstat of all threads
	since   time.Time // ran has been the same
	reports int       // of the current stall
}

type watch struct {
	running        map[string]*process // by process ID and start time
	starts, stalls int
	gap            time.Duration // the longest time without a change
	late           []atomic.Int64
}

func main() {
	interval, err := time.ParseDuration(os.Args[len(os.Args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "watch: usage: watch INTERVAL, for example 500ms")
		os.Exit(2)
	}
	w := watch{running: map[string]*process{}, late: make([]atomic.Int64, processors())}
	for cpu := range w.late {
		go w.sleepOn(cpu)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	for ticker := time.NewTicker(interval); ; {
		select {
		case <-ended:
			w.summary()
			return
		case <-ticker.C:
			w.look(time.Now())
		}
	}
}

// processors returns the number of the machine's processors; runtime.NumCPU counts only those on which watch may run.
func processors() int {
	paths, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*") // the pattern is well-formed
	return len(paths)
}

// sleepOn sleeps on one processor and records the longest delay in nanoseconds.
func (w *watch) sleepOn(cpu int) {
	runtime.LockOSThread()
	var only unix.CPUSet
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		fmt.Printf("watch: processor %d: %v\n", cpu, err)
		return
	}
	length := unix.NsecToTimespec(canary.Nanoseconds())
	for {
		start := time.Now()
		if unix.Nanosleep(&length, nil) != nil {
			continue // interrupted by a signal
		}
		if late := time.Since(start) - canary; int64(late) > w.late[cpu].Load() {
			w.late[cpu].Store(int64(late))
		}
	}
}

// look compares the state of all gateways with the previous one.
func (w *watch) look(now time.Time) {
	found := gateways()
	for key := range w.running {
		if _, ok := found[key]; !ok {
			w.running[key].log.Close()
			delete(w.running, key)
		}
	}
	for key, pid := range found {
		p := w.running[key]
		if p == nil {
			log, _ := os.Open("/proc/" + pid + "/fd/2") // nil if the process has ended meanwhile
			p = &process{pid: pid, log: log}
			w.running[key] = p
			w.starts++
		}
		if ran := schedstat(pid); ran != p.ran {
			if p.reports > 0 {
				fmt.Printf("watch: process %s runs again after %.1f s\n", pid, now.Sub(p.since).Seconds())
			}
			p.ran, p.since, p.reports = ran, now, 0
			continue
		}
		gap := now.Sub(p.since)
		w.gap = max(w.gap, gap)
		switch {
		case gap >= quitAfter && p.reports == 2:
			p.reports = 3
			w.quit(p)
		case gap >= moreAfter && p.reports == 1, gap >= stallAfter && p.reports == 0:
			if p.reports == 0 {
				w.stalls++
			}
			p.reports++
			p.report(gap)
		}
	}
}

// gateways returns the process IDs of gateways by process ID and start time.
func gateways() map[string]string {
	found := map[string]string{}
	names, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is well-formed
	for _, name := range names {
		if comm, err := os.ReadFile(name); err != nil || string(comm) != "strait\n" {
			continue
		}
		dir := filepath.Dir(name)
		command, _ := os.ReadFile(dir + "/cmdline") // empty if the process has ended meanwhile
		if words := bytes.Split(command, []byte{0}); len(words) < 2 || string(words[1]) != "gateway" {
			continue
		}
		stat, _ := os.ReadFile(dir + "/stat")
		if fields := strings.Fields(string(stat)); len(fields) > 21 {
			found[filepath.Base(dir)+" "+fields[21]] = filepath.Base(dir)
		}
	}
	return found
}

// schedstat joins the schedstat of all threads of a process.
func schedstat(pid string) string {
	var all strings.Builder
	paths, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat") // the pattern is well-formed
	for _, path := range paths {
		if content, err := os.ReadFile(path); err == nil {
			all.WriteString(path)
			all.Write(content)
		}
	}
	return all.String()
}

// report prints the kernel's state of a process, its threads, and of timers and interrupts.
func (p *process) report(gap time.Duration) {
	fmt.Printf("watch: process %s: no thread has run for %.1f s\n", p.pid, gap.Seconds())
	for _, file := range []string{"stat", "syscall", "wchan", "stack", "status", "schedstat"} {
		paths, _ := filepath.Glob("/proc/" + p.pid + "/task/*/" + file)
		for _, path := range paths {
			show(path)
		}
	}
	for _, path := range []string{"/proc/uptime", "/proc/interrupts", "/proc/softirqs", "/proc/timer_list"} {
		show(path)
	}
}

func show(path string) {
	content, err := os.ReadFile(path)
	if err != nil {
		content = []byte(err.Error())
	}
	for line := range strings.Lines(strings.TrimSpace(string(content))) {
		fmt.Printf("watch: %s: %s\n", path, strings.TrimRight(line, "\n"))
	}
}

// quit makes the process print its goroutines and end.
func (w *watch) quit(p *process) {
	pid, err := strconv.Atoi(p.pid)
	if err != nil {
		return
	}
	fmt.Printf("watch: process %s: SIGQUIT: %v\n", p.pid, unix.Kill(pid, unix.SIGQUIT))
	time.Sleep(2 * time.Second)
	p.report(quitAfter) // empty if it has ended, which shows that it could receive a signal
	if p.log != nil {
		show(fmt.Sprintf("/proc/self/fd/%d", p.log.Fd()))
	}
}

func (w *watch) summary() {
	late := make([]string, len(w.late))
	for i := range late {
		late[i] = fmt.Sprintf("%.2f", time.Duration(w.late[i].Load()).Seconds())
	}
	fmt.Printf("watch: starts=%d stalls=%d gap=%.2f late=%s\n", w.starts, w.stalls, w.gap.Seconds(), strings.Join(late, ","))
}
