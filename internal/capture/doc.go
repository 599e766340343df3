// Package capture records packets in transit: the filter (Filter), the queue for recorded packets (Ring, Recorder), and the
// file format (pcapng).
//
//	packet path ► Recorder.Packet ► filter ► ring ► Recorder.Append ► pcapng ► client
//
// The packet path never waits for the file: a packet that does not fit the ring is missing in the capture, and counted. The
// package does not depend on the source of the packets; time is an argument.
package capture
