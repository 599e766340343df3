package measure

import "time"

// Pace computes when packets are due at a constant rate that does not depend on responses
// (open loop). With the zero value no packet is ever due.
type Pace struct {
	Rate  float64       // packets per second
	Start time.Duration // of the first packet
}

// Due returns the number of packets due by now, the first one at Start.
func (p Pace) Due(now time.Duration) int {
	if p.Rate <= 0 || now < p.Start {
		return 0
	}
	return int((now-p.Start).Seconds()*p.Rate) + 1
}

// At returns when packet i, counted from 0, is due.
func (p Pace) At(i int) time.Duration {
	return p.Start + time.Duration(float64(i)/p.Rate*float64(time.Second))
}
