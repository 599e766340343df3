package tun

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/link"
)

// counts returns the number of buckets of each gateway.
func counts(table [buckets]*member, gateways []*member) []int {
	count := make([]int, len(gateways))
	for _, l := range table {
		count[slices.Index(gateways, l)]++
	}
	return count
}

func even(count []int) bool { return slices.Max(count)-slices.Min(count) <= 1 }

func TestTheBucketsAreSpreadEvenlyAndMoveOnlyWithTheirGateway(t *testing.T) {
	t.Parallel()
	var s spread
	var gateways []*member
	for len(gateways) < 16 { // gateways join
		joins := new(member)
		gateways = append(gateways, joins)
		before := s.now
		s.share(gateways)
		s.move(gateways)
		if got := counts(s.now, gateways); !even(got) {
			t.Errorf("%d gateways have %v buckets", len(gateways), got)
		}
		for bucket, now := range s.now {
			if before[bucket] != nil && now != before[bucket] && now != joins {
				t.Fatalf("%d gateways: bucket %d moves between gateways that stay", len(gateways), bucket)
			}
		}
	}
	for down, l := range gateways { // one is down, and up again
		all := s.now
		live := slices.Delete(slices.Clone(gateways), down, down+1)
		s.move(live)
		if got := counts(s.now, live); !even(got) {
			t.Errorf("without gateway %d the others have %v buckets", down, got)
		}
		for bucket, now := range s.now {
			if all[bucket] != l && now != all[bucket] {
				t.Fatalf("bucket %d moves, but its gateway is up", bucket)
			}
		}
		without := s.now
		second := (down + 5) % len(gateways)
		s.move(slices.DeleteFunc(slices.Clone(live), func(other *member) bool { return other == gateways[second] }))
		for bucket, now := range s.now {
			if without[bucket] != gateways[second] && now != without[bucket] {
				t.Fatalf("bucket %d moves with another gateway", bucket)
			}
		}
		if s.move(gateways); s.now != all {
			t.Errorf("gateway %d is up again, and its buckets are elsewhere", down)
		}
	}
	for len(gateways) > 1 { // gateways leave
		leaves, before := gateways[0], s.now
		gateways = gateways[1:]
		s.share(gateways)
		s.move(gateways)
		if got := counts(s.now, gateways); !even(got) {
			t.Errorf("%d gateways that stay have %v buckets", len(gateways), got)
		}
		for bucket, now := range s.now {
			if before[bucket] != leaves && now != before[bucket] {
				t.Fatalf("bucket %d moves between gateways that stay", bucket)
			}
		}
	}
}

func TestTheBucketsAreSharedByWeight(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ weights, want []int }{
		"all are 0":                {[]int{0, 0}, []int{128, 128}},
		"one has none":             {[]int{0, 7, 0}, []int{0, 256, 0}},
		"a part and its rest":      {[]int{2, 0, 1, 1}, []int{128, 0, 64, 64}},
		"the largest remainder":    {[]int{2, 0, 1}, []int{171, 0, 85}},
		"more than there are":      {slices.Repeat([]int{1}, 256), slices.Repeat([]int{1}, 256)},
		"what is left of rounding": {[]int{1, 1, 1}, []int{86, 85, 85}},
	} {
		var s spread
		var gateways []*member
		for _, w := range c.weights {
			gateways = append(gateways, &member{weight: w})
		}
		s.share(gateways)
		s.move(gateways)
		if got := counts(s.now, gateways); !slices.Equal(got, c.want) {
			t.Errorf("%s: the gateways have %v buckets, want %v", name, got, c.want)
		}
	}
}

func TestOnlyTheBucketsThatNewWeightsRequireMove(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 14))
	var s spread
	gateways := []*member{{}, {}, {}, {}, {}}
	s.share(gateways)
	for range 1000 {
		before, had := s.home, counts(s.home, gateways)
		for _, l := range gateways {
			l.weight = r.IntN(4)
		}
		s.share(gateways)
		moved, least := 0, 0
		for bucket, home := range s.home {
			if home != before[bucket] {
				moved++
			}
		}
		for i, n := range counts(s.home, gateways) {
			least += max(n-had[i], 0)
		}
		if moved != least {
			t.Fatalf("%d buckets move where %d are enough", moved, least)
		}
		if s.share(gateways); counts(s.home, gateways)[0] != 0 && gateways[0].weight == 0 && slices.ContainsFunc(gateways, func(l *member) bool { return l.weight > 0 }) {
			t.Fatal("a gateway without a weight has buckets")
		}
	}
}

// The gateways without a weight take what those with one cannot carry, and give it back.
func TestAGatewayWithoutAWeightTakesTheBucketsOfOneThatIsDown(t *testing.T) {
	t.Parallel()
	var s spread
	gateways := []*member{{}, {weight: 1}, {}, {}}
	s.share(gateways)
	s.move(gateways)
	if got := counts(s.now, gateways); !slices.Equal(got, []int{0, 256, 0, 0}) {
		t.Fatalf("the gateways have %v buckets", got)
	}
	others := []*member{gateways[0], gateways[2], gateways[3]}
	s.move(others)
	if got := counts(s.now, others); !even(got) {
		t.Errorf("the others have %v buckets", got)
	}
	s.move(gateways)
	if got := counts(s.now, gateways); !slices.Equal(got, []int{0, 256, 0, 0}) {
		t.Errorf("after it is up again the gateways have %v buckets", got)
	}
}

// Two of three gateways have the flows of this gateway, and another gateway has the other two of them: what is divided
// evenly leaves both gateways of the rest with as many.
func TestTheBucketsOfAGatewayThatIsDownAreDividedEvenly(t *testing.T) {
	t.Parallel()
	var s spread
	gateways := []*member{{weight: 2}, {}, {weight: 1}}
	s.share(gateways)
	s.move(gateways)
	s.move(gateways[1:])
	if got := counts(s.now, gateways); !slices.Equal(got, []int{0, 86, 170}) {
		t.Errorf("the gateways have %v buckets", got)
	}
}

func TestTheGatewaysThatCarryPackets(t *testing.T) {
	t.Parallel()
	type gateway struct {
		fit  link.Fitness
		up   time.Duration // when its last probe was answered
		live bool
	}
	for name, c := range map[string]struct {
		gateways []gateway
		want     []int
	}{
		"none":                             {nil, nil},
		"nothing is up":                    {[]gateway{{link.Down, 0, false}, {link.Down, 0, false}}, []int{0}},
		"nothing is up any more":           {[]gateway{{link.Down, 0, false}, {link.Down, 0, true}, {link.Down, 0, true}}, []int{1}},
		"the first that is up":             {[]gateway{{link.Down, 0, true}, {link.Up, 0, false}}, []int{1}},
		"all that come up at once":         {[]gateway{{link.Up, 0, false}, {link.Up, 0, false}}, []int{0, 1}},
		"one that has just come up":        {[]gateway{{link.Up, time.Hour, true}, {link.Up, settled - 1, false}}, []int{0}},
		"one that has settled":             {[]gateway{{link.Up, time.Hour, true}, {link.Up, settled, false}}, []int{0, 1}},
		"one that ends":                    {[]gateway{{link.Ending, time.Hour, true}, {link.Up, 0, false}}, []int{1}},
		"all end":                          {[]gateway{{link.Ending, time.Hour, true}, {link.Ending, 0, false}, {link.Down, 0, true}}, []int{0, 1}},
		"one that was up for a moment":     {[]gateway{{link.Up, time.Hour, true}, {link.Up, 0, true}}, []int{0, 1}},
		"one is down, and the others stay": {[]gateway{{link.Up, time.Hour, true}, {link.Down, 0, true}, {link.Up, time.Hour, true}}, []int{0, 2}},
	} {
		var members []*member
		for _, g := range c.gateways {
			members = append(members, &member{fit: g.fit, steady: g.up, live: g.live})
		}
		var got []int
		for _, m := range carriers(members) {
			got = append(got, slices.Index(members, m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v carry packets, want %v", name, got, c.want)
		}
	}
}
