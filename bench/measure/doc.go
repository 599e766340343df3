// Package measure holds the instruments of the benchmarks: the cost of an operation
// (PerOp), when a packet is due (Pace), latencies (Latencies), the highest rate of a path
// (Search), and the CPU time and memory of this process.
//
// They compute from times and counts passed to them; only Clock, CPUTime, ThreadTime and Resident
// query the machine. So each is tested with invented inputs whose result is known.
package measure
