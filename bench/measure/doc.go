// Package measure holds the instruments of the benchmarks: what an operation
// costs (PerOp), when a packet is due (Pace), how late responses come (Latencies),
// how much a path carries (Search), and what it costs this process (Usage).
//
// They compute from moments and counts that they are given; only Clock and Usage
// ask the machine. So each is tested with made-up figures whose response is known.
package measure
