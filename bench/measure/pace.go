package measure

import "time"

// Pace says how many packets are due at a moment, for a constant rate that does
// not depend on what comes back (open loop). The zero value is never due.
type Pace struct {
	Rate  float64       // packets per second
	Start time.Duration // of the first packet
}

// Due is how many packets are due up to now, the first one at Start.
func (p Pace) Due(now time.Duration) int {
	if p.Rate <= 0 || now < p.Start {
		return 0
	}
	return int((now-p.Start).Seconds()*p.Rate) + 1
}

// At is when packet i, counted from 0, is due.
func (p Pace) At(i int) time.Duration {
	return p.Start + time.Duration(float64(i)/p.Rate*float64(time.Second))
}
