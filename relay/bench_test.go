package relay

import (
	"io"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
)

// BenchmarkTCP copies 1 MiB to the target, and from it, in stacks of one process.
func BenchmarkTCP(b *testing.B) {
	const size = 1 << 20
	chunk := make([]byte, size)
	for _, way := range []string{"to target", "to caller"} {
		b.Run(way, func(b *testing.B) {
			w := newWorldIn(b, Limits{}, tcpip.NewStdClock())
			here, there := w.pair(w.listen(port))
			from, to := io.Writer(here), io.Reader(there)
			if way == "to caller" {
				from, to = there, here
			}
			b.SetBytes(size)
			for b.Loop() {
				go func() { _, _ = from.Write(chunk) }()
				if _, err := io.CopyN(io.Discard, to, size); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
