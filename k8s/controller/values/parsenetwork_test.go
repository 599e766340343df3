package values

import (
	"strings"
	"testing"
)

func TestAMistakeInTheFieldsOfAClusterNetworkIsNamed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"podCIDR: [10.0.0.0/16]", `unknown field "podCIDR"`},
		{"overlay: {mut: 1400}", `unknown field "overlay.mut"`},
		{"podCIDRs: 10.0.0.0/16", "podCIDRs"},
		{"podCIDRs: []\npodCIDRs: []", "already set"},
		{"[]", "see kubectl explain"},
	} {
		if _, err := ParseNetwork([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	for _, text := range []string{"", "{}", "null"} {
		if fields, err := ParseNetwork([]byte(text)); err != nil || fields == nil || len(fields) != 0 {
			t.Errorf("%q: %v, %v", text, fields, err)
		}
	}
}

func FuzzParseNetwork(f *testing.F) {
	f.Add([]byte("{clusterID: a, podCIDRs: [10.0.0.0/16], overlay: {mtu: 1400}}"))
	f.Add([]byte("null"))
	f.Add([]byte("podCIDR: [x]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if fields, err := ParseNetwork(text); err == nil && fields == nil {
			t.Error("an installation that says something says nothing")
		}
	})
}
