package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxBlock is the maximum length of a block in bytes: a packet and its overhead.
const maxBlock = MaxPacket + 64<<10

// Reader reads the file of a capture while it is written: to count its packets, and to detect where it is truncated.
type Reader struct {
	from       *bufio.Reader
	raw        []byte
	interfaces []string
	statistics []Statistics // by interface
}

// Statistics are the counters of an interface.
type Statistics struct {
	Received, Lost uint64 // packets that the filter kept, and how many of them are not in the file
}

// Packet is one packet in a file.
type Packet struct {
	Interface string
	Outbound  bool
	Time      time.Time
	Original  int // length in bytes; Data may be shorter
	Data      []byte
}

// NewReader returns a Reader for a stream.
func NewReader(from io.Reader) *Reader { return &Reader{from: bufio.NewReaderSize(from, 64<<10)} }

// Next reads one block. raw is the unchanged block; packet is its packet, nil if it contains none. Both are valid until the
// next call. At the end the error is io.EOF.
func (r *Reader) Next() (raw []byte, packet *Packet, err error) {
	head, err := r.from.Peek(8)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, nil, err
	}
	block, size := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:])
	if size < blockOverhead || size > maxBlock || size%4 != 0 {
		return nil, nil, fmt.Errorf("not a capture: a block of %d bytes; use the strait of the gateway's version", size)
	}
	if r.interfaces == nil && block != blockSection {
		return nil, nil, errors.New("not a capture: the file header is missing; use the strait of the gateway's version")
	}
	if cap(r.raw) < int(size) {
		r.raw = make([]byte, size)
	}
	r.raw = r.raw[:size]
	if _, err := io.ReadFull(r.from, r.raw); err != nil {
		return nil, nil, io.ErrUnexpectedEOF
	}
	if binary.LittleEndian.Uint32(r.raw[size-4:]) != size {
		return nil, nil, errors.New("not a capture: the two lengths of a block differ")
	}
	packet, err = r.open(block, r.raw[8:size-4])
	return r.raw, packet, err
}

// Waits reports whether data can be read without blocking.
func (r *Reader) Waits() bool { return r.from.Buffered() > 0 }

// Total returns the sum of the statistics read so far.
func (r *Reader) Total() (t Statistics) {
	for _, s := range r.statistics {
		t.Received += s.Received
		t.Lost += s.Lost
	}
	return t
}

var errShort = errors.New("not a capture: a block is shorter than its contents")

// open parses the body of a block.
func (r *Reader) open(block uint32, b []byte) (*Packet, error) {
	switch block {
	case blockSection:
		if len(b) < 16 || binary.LittleEndian.Uint32(b) != byteOrderMagic {
			return nil, errors.New("not a capture: unexpected byte order")
		}
		r.interfaces, r.statistics = []string{}, nil
	case blockInterface:
		if len(b) < 8 {
			return nil, errShort
		}
		if binary.LittleEndian.Uint16(b) != linkTypeCooked {
			return nil, errors.New("not a capture: unexpected link type; use the strait of the gateway's version")
		}
		name, _ := option(b[8:], interfaceName)
		r.interfaces = append(r.interfaces, string(name))
		r.statistics = append(r.statistics, Statistics{})
	case blockPacket:
		return r.openPacket(b)
	case blockStatistics:
		if len(b) < 12 || int64(binary.LittleEndian.Uint32(b)) >= int64(len(r.statistics)) {
			return nil, errShort
		}
		s := &r.statistics[binary.LittleEndian.Uint32(b)]
		if v, ok := option(b[12:], statisticsReceived); ok && len(v) == 8 {
			s.Received = binary.LittleEndian.Uint64(v)
		}
		if v, ok := option(b[12:], statisticsDropped); ok && len(v) == 8 {
			s.Lost = binary.LittleEndian.Uint64(v)
		}
	}
	return nil, nil
}

func (r *Reader) openPacket(b []byte) (*Packet, error) {
	if len(b) < 20 {
		return nil, errShort
	}
	in, kept := int64(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint32(b[12:]))
	if in >= int64(len(r.interfaces)) || kept > int64(len(b)-20) || kept < cooked {
		return nil, errShort
	}
	nano := uint64(binary.LittleEndian.Uint32(b[4:]))<<32 | uint64(binary.LittleEndian.Uint32(b[8:]))
	p := &Packet{
		Interface: r.interfaces[in],
		Time:      time.Unix(0, int64(nano)),
		Original:  int(binary.LittleEndian.Uint32(b[16:])) - cooked,
		Data:      b[20+cooked : 20+kept],
	}
	rest := b[20+kept:]
	if flags, ok := option(rest[min(int(-kept&3), len(rest)):], packetFlags); ok && len(flags) == 4 {
		p.Outbound = binary.LittleEndian.Uint32(flags)&3 == flagOutbound
	}
	return p, nil
}

// option returns an option of a block.
func option(b []byte, code uint16) (value []byte, ok bool) {
	for len(b) >= 4 {
		found, size := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		b = b[4:]
		if found == optionEnd || size > len(b) {
			break
		}
		if found == code {
			return b[:size], true
		}
		b = b[min(size+(-size&3), len(b)):]
	}
	return nil, false
}
