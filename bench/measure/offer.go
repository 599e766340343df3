package measure

import "time"

const (
	// burst is the number of packets between two readings of the clock.
	burst = 64
	// nap is the shortest sleep: a wake-up costs a few µs, and a receive queue of 208 KiB
	// holds 200 µs of packets at 1 Mpps.
	nap = 200 * time.Microsecond
	// overtime is the fraction of the duration by which a sender may finish late.
	overtime = 50 // one fiftieth
)

// Pacer is a clock for pacing.
type Pacer interface {
	Now() time.Duration
	SleepUntil(time.Duration)
}

// Offer sends packets at a pace from its start until end. send sends n packets at once and
// returns how many the kernel accepted. Late packets are sent at once; packets that cannot
// be sent soon after the end are missing in sent.
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
