// Package capture records packets in passing: which (Filter), where they wait for
// somebody to take them (Ring, Recorder), and the file that they become (pcapng).
//
//	packet path ► Recorder.Packet ► filter ► ring ► Recorder.Append ► pcapng ► whoever asked
//
// The packet path never waits for the file: what finds no room in the ring is lost to the
// capture, and counted. Nothing here knows where packets come from; time is an argument.
package capture
