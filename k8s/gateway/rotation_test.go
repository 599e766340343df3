package gateway

import (
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/tun"
)

// ownKeyOf is the key of a generation.
func ownKeyOf(generation int32) translate.OwnKey {
	return translate.OwnKey{Public: config.Key{byte(generation) + 1}, Generation: generation}
}

// up is a link that is up, with a key of ours.
func up(gateway string, generation int32) tun.LinkStatus {
	return tun.LinkStatus{LinkIdentity: tun.LinkIdentity{Gateway: gateway, OwnKey: ownKeyOf(generation).Public}, Up: true}
}

func TestF15_AKeyIsReplacedWhenEveryRemoteGatewayUsesTheNewOne(t *testing.T) {
	both := []translate.OwnKey{ownKeyOf(2), ownKeyOf(1), ownKeyOf(0)}
	down := up("a-0", 2)
	down.Up = false
	var r rotation
	for _, step := range []struct {
		at        time.Duration
		keys      []translate.OwnKey
		links     []tun.LinkStatus
		use, next int32 // generations; 0: none
	}{
		{0, both[2:], nil, 0, 0}, // the key of an invite is not published
		{0, both[1:], nil, 1, 0},
		{1, both, []tun.LinkStatus{up("a-0", 1)}, 1, 2},
		{2, both, []tun.LinkStatus{up("a-0", 1), down}, 1, 2},
		{3, both, []tun.LinkStatus{up("a-0", 1), up("a-0", 2), up("a-1", 1)}, 1, 2},
		{20, both, []tun.LinkStatus{up("a-0", 1), up("a-0", 2), up("a-1", 1)}, 1, 2}, // a-1 does not yet
		{21, both, []tun.LinkStatus{up("a-0", 2), up("a-1", 2)}, 1, 2},
		{25, both, nil, 1, 2}, // no remote gateway is up
		{26, both, []tun.LinkStatus{up("a-0", 2)}, 1, 2},
		{35, both, []tun.LinkStatus{up("a-0", 2)}, 1, 2},
		{36, both, []tun.LinkStatus{up("a-0", 2)}, 2, 0},
		{37, both, nil, 2, 0},
		{38, both[:1], nil, 2, 0},
	} {
		use, next := r.step(step.keys, step.links, time.Unix(0, 0).Add(step.at*time.Second))
		if generationOf(use) != step.use || generationOf(next) != step.next {
			t.Fatalf("after %d s: use %d, next %d; want %d and %d", step.at, generationOf(use), generationOf(next), step.use, step.next)
		}
	}
}

func TestAGatewayThatStartsAgainGoesOnWithTheKeyThatItShowed(t *testing.T) {
	keys := []translate.OwnKey{ownKeyOf(2), ownKeyOf(1)}
	r := rotation{generation: 2}
	if use, next := r.step(keys, nil, time.Unix(0, 0)); generationOf(use) != 2 || next != nil {
		t.Errorf("use %d, next %v", generationOf(use), next)
	}
	r = rotation{generation: 7} // which is gone
	if use, next := r.step(keys, nil, time.Unix(0, 0)); generationOf(use) != 1 || generationOf(next) != 2 {
		t.Errorf("use %d, next %d", generationOf(use), generationOf(next))
	}
}

func generationOf(k *translate.OwnKey) int32 {
	if k == nil {
		return 0
	}
	return k.Generation
}
