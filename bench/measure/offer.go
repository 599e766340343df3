package measure

import "time"

const (
	// burst is how many packets go out between two looks at the clock.
	burst = 64
	// nap is the shortest sleep: waking costs some µs, and a receive queue of
	// 208 KiB holds what comes in 200 µs at 1 Mpps.
	nap = 200 * time.Microsecond
	// overtime is the part of its time that a sender may be late in the end: what
	// it has sent then was sent at a rate that is as little too low.
	overtime = 50 // a fiftieth
)

// Pacer is a clock to pace by.
type Pacer interface {
	Now() time.Duration
	SleepUntil(time.Duration)
}

// Offer sends packets at a pace from its start until end. send sends n packets at
// once and returns how many were taken. What is late is sent at once; what is not
// sent soon after the end never is, and is missing in what was sent.
func Offer(clock Pacer, p Pace, end time.Duration, send func(n int) int) (wanted, sent int) {
	wanted = int((end - p.Start).Seconds() * p.Rate)
	deadline := end + (end-p.Start)/overtime
	for tried := 0; tried < wanted; {
		now := clock.Now()
		if now >= deadline {
			break
		}
		due := min(p.Due(now), wanted) - tried
		if due <= 0 {
			clock.SleepUntil(max(p.At(tried), min(now+nap, p.At(wanted-1))))
			continue
		}
		n := min(due, burst)
		sent += send(n)
		tried += n
	}
	return wanted, sent
}
