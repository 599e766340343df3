package rig

import (
	"fmt"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/bench/rig/traffic"
)

const (
	// tolerableLoss is the goal of the search for the highest rate.
	tolerableLoss = 0.01
	// senderLate is the fraction of a rate that a sender must achieve.
	senderLate = 0.9
	// searchStart is the first rate of searches, packets per second.
	searchStart = 10_000
	// searchResolution is the fraction of a rate at which a search ends.
	searchResolution = 0.05
)

// trialOf returns the result of packets sent at a rate.
func trialOf(rate float64, sent traffic.Sent, received int) measure.Trial {
	t := measure.Trial{Rate: rate, Wanted: sent.Wanted, Sent: sent.Sent, Received: received}
	if float64(t.Sent) > senderLate*float64(t.Wanted) {
		t.Wanted = t.Sent // the path did not lose what was not sent
	}
	return t
}

// highestRate searches for the highest rate with a tolerable loss and returns the received
// packets per second. offer offers a rate for a time.
func highestRate(d time.Duration, offer func(rate float64) (sent traffic.Sent, received int, err error)) (float64, error) {
	limits := measure.Limits{Start: searchStart, Resolution: searchResolution, Trials: 9}
	arrived := make(map[float64]float64) // by offered rate
	best, err := measure.Search([]float64{tolerableLoss}, limits, func(rate float64) (measure.Trial, error) {
		sent, received, err := offer(rate)
		arrived[rate] = float64(received) / d.Seconds()
		return trialOf(rate, sent, received), err
	})
	if err != nil {
		return 0, err
	}
	return arrived[best[0]], nil
}

// packetRate searches for the highest rate of datagrams with a tolerable loss.
func (r *Rig) packetRate(p *setting, payload int, d time.Duration) (metrics, error) {
	best, err := highestRate(d, func(rate float64) (traffic.Sent, int, error) {
		sent, count, _, err := r.datagrams(p, p.a.pod, p.b.pod, blastTo(p, []int{payload}, rate, d))
		return sent, int(count.Datagrams), err
	})
	return metrics{unitPacketRate: best}, err
}

func blastTo(p *setting, payloads []int, rate float64, d time.Duration) traffic.Blast {
	return traffic.Blast{To: p.sees(p.b, 0), Sizes: payloads, Rate: rate, Duration: d, Burst: podBurst}
}

// dropRates searches for the highest rates without loss (NDR) and with at most 0.5 % loss
// (PDR), and measures the cost of a packet at 0.9 PDR, and the loss at that rate over a
// longer time. 0 means that no rate was found; without PDR there is no cost.
func (r *Rig) dropRates(p *setting, payloads []int, trial, pricing time.Duration) (metrics, error) {
	limits := measure.Limits{Start: searchStart, Resolution: searchResolution, Trials: 18, Attempts: 2}
	found, err := measure.Search([]float64{measure.PDR, measure.NDR}, limits, func(rate float64) (measure.Trial, error) {
		sent, count, _, err := r.datagrams(p, p.a.pod, p.b.pod, blastTo(p, payloads, rate, trial))
		return trialOf(rate, sent, int(count.Datagrams)), err
	})
	if err != nil {
		return nil, err
	}
	pdr, ndr := found[0], found[1]
	if pdr == 0 {
		return metrics{unitPDR: pdr, unitNDR: ndr}, nil
	}
	rate := 0.9 * pdr
	sent, count, cpu, err := r.datagrams(p, p.a.pod, p.b.pod, blastTo(p, payloads, rate, pricing))
	if err != nil {
		return nil, err
	}
	m, err := perPacket(rate, sent, count, cpu)
	if err != nil {
		return nil, fmt.Errorf("at a rate that passed before: %w", err)
	}
	m[unitPDR], m[unitNDR] = pdr, ndr
	return m, nil
}
