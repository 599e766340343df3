package tun

import (
	"sync"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// incoming is the sockets that receive frames from nodes, and what they have received. One device reads them.
type incoming struct {
	mu      sync.Mutex // held by the reading device; contended only while another one takes over
	sources []*source
	turns   *underlay.Turns // of sources
	// pieces are those left of the current packet when bufs were full. They stay here, with the
	// receive memory that they alias, when another device continues.
	pieces packet.Pieces
}

// source is one listening socket.
type source struct {
	socket        *underlay.Socket
	encapsulation gateway.Encapsulation
	// isFrame reports whether a message with a segment size is one frame: a node on this machine sent UDP that its kernel
	// left unsegmented, and the size is that of the inner UDP packet. Usually the message consists of several frames that
	// the kernel coalesced.
	isFrame func(message []byte) bool
}

func (in *incoming) add(s *underlay.Socket, e gateway.Encapsulation) {
	in.sources = append(in.sources, &source{s, e, func(message []byte) bool { return gateway.SpansFrame(message, e) }})
	in.turns.Add(s)
}

// current returns the source whose datagrams are being read.
func (in *incoming) current() *source { return in.sources[in.turns.Current()] }
