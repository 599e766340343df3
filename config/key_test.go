package config

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// The canonical points of low order on Curve25519 and its twist, little endian:
// 0, 1, the two of order 8, p-1, p and p+1.
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// behaviours: WireGuard's own netns test, scenario 23.
func TestNetns23_LowOrderPointsAreRefusedAsPeers(t *testing.T) {
	t.Parallel()
	for _, text := range lowOrder {
		var k Key
		if _, err := hex.Decode(k[:], []byte(text)); err != nil {
			t.Fatal(err)
		}
		for _, top := range []byte{0, 0x80} { // the top bit is ignored, RFC 7748 section 5
			k[31] |= top
			if !k.isLowOrder() {
				t.Errorf("%x is accepted", k[:])
			}
		}
	}
}

func TestOrdinaryKeysAreNotOfLowOrder(t *testing.T) {
	t.Parallel()
	for i := range byte(64) {
		private, err := ecdh.X25519().NewPrivateKey(append(make([]byte, 31), i))
		if err != nil {
			t.Fatal(err)
		}
		if k := Key(private.PublicKey().Bytes()); k.isLowOrder() {
			t.Errorf("%s is refused", k)
		}
	}
}

func TestKeysPrintAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	const text = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="
	if got := fmt.Sprint(key(t, text)); got != text {
		t.Errorf("got %s, want %s", got, text)
	}
}

func TestKeysAreCanonicalBase64(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "31 bytes": base64.StdEncoding.EncodeToString(make([]byte, 31)),
		"33 bytes":          base64.StdEncoding.EncodeToString(make([]byte, 33)),
		"without padding":   "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08",
		"with spare bits":   "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK09=",
		"for URLs":          "3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08=",
		"with a line break": "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hb\neGdNrfx+FG+IK08=",
	} {
		if _, err := ParseKey(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A private key may end up anywhere in a file. No error may hand it on to a log.
func TestT4_SecretsInTheWrongPlaceAreNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "iJXlbBlGW5pcuRDAIEMYHKIGxnTU0mn8WYFLCIA9YVE="
	raw, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	document := valid(t)
	for name, place := range map[string]struct{ old, new string }{
		"private key for its file":   {"/etc/strait/private.key", `"` + secret + `"`},
		"a peer's own private key":   {"/etc/strait/next.key", `"` + secret + `"`},
		"preshared key for its file": {"/etc/strait/preshared.key", `"` + secret + `"`},
		"in a field of its own":      {"privateKeyFile: /etc/strait/private.key", `privateKey: "` + secret + `"`},
		"in hexadecimal":             {`"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="`, fmt.Sprintf("%x", raw)},
		"with a letter too many":     {"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=", secret + "x"},
	} {
		err := check(strings.Replace(document, place.old, place.new, 1))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, form := range []string{secret[:8], fmt.Sprintf("%x", raw[:4])} {
			if strings.Contains(err.Error(), form) {
				t.Errorf("%s: the error repeats it: %v", name, err)
			}
		}
	}
}
