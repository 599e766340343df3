package controller

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestPrivateKeysAreThoseOfCurve25519(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		text := privateKey()
		line, ended := strings.CutSuffix(string(text), "\n")
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || !ended || len(key) != 32 {
			t.Fatalf("a key of %d bytes, ended by a line break: %v: %v", len(key), ended, err)
		}
		if key[0]&7 != 0 || key[31]&128 != 0 || key[31]&64 == 0 {
			t.Error("a key is not clamped")
		}
		if seen[line] {
			t.Error("a key came twice")
		}
		seen[line] = true
	}
}

func TestT4_NoErrorHoldsAKey(t *testing.T) {
	key := privateKey()
	sent, plain := base64.StdEncoding.EncodeToString(key), strings.TrimSpace(string(key))
	for _, quoted := range []string{sent, plain} {
		if err := withoutKey(errors.New("webhook denied "+quoted), key); err == nil || strings.Contains(err.Error(), quoted) {
			t.Error("an error that quotes the key passes it on")
		}
	}
	harmless := errors.New("exceeded quota")
	if err := withoutKey(harmless, key); !errors.Is(err, harmless) || withoutKey(nil, key) != nil {
		t.Errorf("another error became %v", err)
	}
}

// Keys come to pods that run, and one in use is never out of reach.
func TestPodsGetTheGenerationsAroundTheOnesInUse(t *testing.T) {
	for _, c := range []struct {
		wanted int32
		inUse  []int32
		want   string
	}{
		{0, nil, "1 to 8"}, {1, []int32{1}, "1 to 8"}, {8, []int32{7, 8}, "1 to 8"},
		{9, []int32{8}, "1 to 16"}, {9, []int32{9}, "1 to 16"}, {16, []int32{16}, "1 to 16"}, {17, []int32{16}, "9 to 24"},
		{30, []int32{3, 0}, "1 to 8, 17 to 32"}, {2, []int32{40}, "1 to 8"},
	} {
		p := &v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{KeyGeneration: c.wanted}}}
		for _, g := range c.inUse {
			p.Status.Gateways = append(p.Status.Gateways, v1alpha1.GatewayStatus{KeyGeneration: g})
		}
		var runs []string
		all := generations(p)
		for from := 0; from < len(all); {
			to := from
			for to+1 < len(all) && all[to+1] == all[to]+1 {
				to++
			}
			runs = append(runs, fmt.Sprintf("%d to %d", all[from], all[to]))
			from = to + 1
		}
		if got := strings.Join(runs, ", "); got != c.want {
			t.Errorf("wanted %d, in use %v: %s, want %s", c.wanted, c.inUse, got, c.want)
		}
	}
}
