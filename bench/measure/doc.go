// Package measure holds the instruments of the benchmarks: the cost of an operation
// (PerOp), when a packet is due (Pace), latencies (Latencies), the highest rate of a path
// (Search), and the resource use of this process (Usage).
//
// They compute from times and counts passed to them; only Clock and Usage query the
// machine. So each is tested with invented inputs whose result is known.
package measure
