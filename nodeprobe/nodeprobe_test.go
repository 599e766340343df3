package nodeprobe_test

import (
	"bytes"
	"testing"
	"time"

	"strait.dev/strait/nodeprobe"
)

var answer = []byte{
	'S', 'T', 'R', 'N', // magic
	1, 2, 3, 0, // version, answer, links up, reserved
	0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78, // sequence
	0, 0, 0x04, 0xe2, // 1250 ms
}

func TestAnAnswerHasTheseBytes(t *testing.T) {
	t.Parallel()
	m := nodeprobe.Message{Answer: true, State: nodeprobe.LinksUp, Sequence: 0x12345678, Interval: 1250 * time.Millisecond}
	b := bytes.Repeat([]byte{0xee}, nodeprobe.Len+1)
	m.Put(b)
	if !bytes.Equal(b, append(bytes.Clone(answer), 0xee)) {
		t.Errorf("% x\nwant % x", b, answer)
	}
	if got, ok := nodeprobe.Parse(b); !ok || got != m {
		t.Errorf("read %+v %v", got, ok)
	}
}

func TestFieldsAndStatesOfLaterVersionsAreIgnored(t *testing.T) {
	t.Parallel()
	later := append(bytes.Clone(answer), "fields of version 2"...)
	later[4], later[6], later[7] = 2, 99, 1
	m, ok := nodeprobe.Parse(later)
	if !ok || m.State != nodeprobe.Unknown || m.Sequence != 0x12345678 || !m.Answer {
		t.Errorf("read %+v %v", m, ok)
	}
}

func TestOtherDatagramsAreNotMessages(t *testing.T) {
	t.Parallel()
	with := func(at int, v byte) []byte {
		b := bytes.Clone(answer)
		b[at] = v
		return b
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "one byte short": answer[:nodeprobe.Len-1], "another magic": with(3, 'P'), "version 0": with(4, 0),
		"kind 0": with(5, 0), "kind 3": with(5, 3),
	} {
		if m, ok := nodeprobe.Parse(b); ok {
			t.Errorf("%s: read %+v", name, m)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(answer)
	f.Add(append(bytes.Clone(answer), 1, 2, 3))
	f.Add(answer[:nodeprobe.Len-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := nodeprobe.Parse(b)
		if !ok {
			return
		}
		again := make([]byte, nodeprobe.Len)
		m.Put(again)
		if n, ok := nodeprobe.Parse(again); !ok || n != m {
			t.Fatalf("% x is read as %+v, and written as % x", b, m, again)
		}
	})
}
