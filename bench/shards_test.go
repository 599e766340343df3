package bench

import (
	"net/netip"
	"testing"

	"strait.dev/strait/bench/traffic"
)

func TestMovedAndReorderedDatagramsAreCounted(t *testing.T) {
	t.Parallel()
	s := &sharded{shards: []*shard{{}, {}}, flows: make(map[netip.AddrPort]arrival)}
	one, other := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.1:2")
	for _, c := range []struct {
		shard int
		round uint32
		from  netip.AddrPort
	}{
		{0, 0, one}, {1, 0, other}, {0, 2, one}, {0, 1, one}, {1, 1, one}, {1, 1, other},
	} {
		b := make([]byte, shardSize)
		traffic.Mark{Number: c.round}.Put(b)
		s.take(c.shard, b, c.from)
	}
	// Of the first flow's four, the third and fourth arrive after round 2, and the fourth
	// at another shard.
	if s.total != 6 || s.late != 2 || s.moved != 1 || s.shards[0].datagrams != 3 || s.shards[1].datagrams != 3 {
		t.Errorf("total %d, late %d, moved %d, shards %+v %+v", s.total, s.late, s.moved, s.shards[0], s.shards[1])
	}
}
