package gateway

import (
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
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
}

// The private key of before a rotation may have leaked. A gateway that is back after its Peering had fewer, and a temporary one,
// have the keys of all generations.
func TestAKeyOfBeforeARotationIsNotUsedAgain(t *testing.T) {
	all := []translate.OwnKey{ownKeyOf(5), ownKeyOf(4), ownKeyOf(1), ownKeyOf(0)}
	gateway := func(name string, generation int32) v1alpha1.GatewayStatus {
		return v1alpha1.GatewayStatus{Name: name, KeyGeneration: generation}
	}
	for name, c := range map[string]struct {
		keys      []translate.OwnKey
		gateways  []v1alpha1.GatewayStatus
		reported  int32
		use, next int32
	}{
		"the first gateways":                    {all, []v1alpha1.GatewayStatus{gateway("b-0", 0), gateway("b-1", 0)}, 0, 1, 5},
		"a gateway that is back":                {all, []v1alpha1.GatewayStatus{gateway("b-0", 5)}, 0, 5, 0},
		"in the status without a key":           {all, []v1alpha1.GatewayStatus{gateway("b-0", 5), gateway("b-1", 0)}, 0, 5, 0},
		"in a rotation":                         {all, []v1alpha1.GatewayStatus{gateway("b-0", 4), gateway("b-2", 5)}, 0, 4, 5},
		"without the key of the others":         {[]translate.OwnKey{ownKeyOf(6), ownKeyOf(1)}, []v1alpha1.GatewayStatus{gateway("b-0", 5)}, 0, 6, 0},
		"what it used before its pod was new":   {all, []v1alpha1.GatewayStatus{gateway("b-0", 5), gateway("b-1", 4)}, 0, 4, 5},
		"what it used before it started again":  {all, []v1alpha1.GatewayStatus{gateway("b-0", 4), gateway("b-1", 4)}, 5, 5, 0},
		"a key that is gone, with a newer one":  {all, []v1alpha1.GatewayStatus{gateway("b-1", 3)}, 0, 4, 5},
		"a key that is gone, with no newer one": {all, []v1alpha1.GatewayStatus{gateway("b-1", 7)}, 0, 0, 0},
	} {
		p := &v1alpha1.Peering{Status: v1alpha1.PeeringStatus{Gateways: c.gateways}}
		r := rotation{generation: keyInUse(p, "b-1", v1alpha1.GatewayReportStatus{KeyGeneration: c.reported})}
		if use, next := r.step(c.keys, nil, time.Unix(0, 0)); generationOf(use) != c.use || generationOf(next) != c.next {
			t.Errorf("%s: use %d, next %d; want %d and %d", name, generationOf(use), generationOf(next), c.use, c.next)
		}
	}
}

func generationOf(k *translate.OwnKey) int32 {
	if k == nil {
		return 0
	}
	return k.Generation
}
