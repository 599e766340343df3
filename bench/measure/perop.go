package measure

import "time"

// warmup is how often an operation runs before it is timed.
const warmup = 64

// PerOp times an operation for about the duration of budget and returns nanoseconds per
// operation. op runs it n times in a row. now is a monotonic clock.
func PerOp(budget time.Duration, now func() time.Duration, op func(n int)) float64 {
	op(warmup)
	n := 1
	for {
		begin := now()
		op(n)
		took := now() - begin
		if took >= budget || n >= 1<<40 {
			return float64(took) / float64(n)
		}
		n = next(n, took, budget)
	}
}

// next returns the number of operations that fill the budget, estimated from n that took
// the given time: slightly more, but never many times more after a short measurement.
func next(n int, took, budget time.Duration) int {
	const most = 100
	if took <= 0 {
		return n * most
	}
	wanted := float64(n) * float64(budget) / float64(took) * 1.1
	return int(min(max(wanted, float64(n+1)), float64(n)*most))
}
