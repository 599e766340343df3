package operator

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// secret is a private key for tests.
func secret(t testing.TB) PrivateKey {
	t.Helper()
	key, err := NewPrivateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	must(t, err)
	return key
}

func invite(t testing.TB) *Invite {
	return &Invite{
		ClusterID: "a", Prefixes: []v1alpha1.CIDR{"10.0.0.0/16", "fd00:10::/48"}, ExternalPrefixes: []v1alpha1.CIDR{"10.70.0.0/16"},
		Gateways: []InviteGateway{{Name: "b-0", PublicKey: "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=",
			Endpoints: []v1alpha1.Endpoint{"gw-a.example:51840", "[2001:db8::1]:31840"}}},
		PrivateKey: secret(t), NotAfter: noon,
	}
}

func token(t testing.TB, i *Invite) string {
	t.Helper()
	text, err := i.Token()
	must(t, err)
	return text
}

func TestATokenSaysWhatTheInviteSaid(t *testing.T) {
	want := invite(t)
	text := token(t, want)
	if strings.ContainsAny(text, " \n\t") || !strings.HasPrefix(text, "strait-invite-v1.") {
		t.Errorf("the token is not one word: %s", text)
	}
	got, err := ParseToken(" "+text+"\r\n", noon.Add(-1))
	must(t, err)
	got.Checksum = ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestATokenThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	whole := token(t, invite(t))
	changed := func(change func(*Invite)) string {
		i := invite(t)
		change(i)
		return token(t, i)
	}
	body := strings.TrimPrefix(whole, "strait-invite-v1.")
	plain, err := base64.RawURLEncoding.DecodeString(body)
	must(t, err)
	var fields map[string]any
	must(t, json.Unmarshal(plain, &fields))
	fields["surplus"] = true
	withSurplus, err := json.Marshal(fields)
	must(t, err)
	for name, c := range map[string]struct{ text, says string }{
		"empty":           {"", "not a token"},
		"another text":    {"apiVersion: v1", "not a token"},
		"cut":             {whole[:len(whole)-9], "the token is incomplete"},
		"cut at a letter": {whole[:len(whole)-1], "the token is incomplete"},
		"cut early":       {"strait-invite-v1", "the token is incomplete"},
		"one letter":      {strings.Replace(whole, body[20:21], "_", 1), "the token is incomplete"},
		"line breaks":     {whole[:80] + "\n" + whole[80:], "the token is incomplete"},
		"a field more":    {"strait-invite-v1." + base64.RawURLEncoding.EncodeToString(withSurplus), "the token is incomplete"},
		"a later version": {"strait-invite-v2." + body, "version 2, and this strait supports version 1: upgrade strait"},
		"no version":      {"strait-invite-vx." + body, "the token is incomplete"},
		"version 0":       {"strait-invite-v0." + body, "the token is incomplete"},
		"too long":        {whole + strings.Repeat("A", MaxToken), "longer than any token"},
		"expired":         {whole, "invite of cluster a expired at 2026-11-21T12:00:00Z; request a new invite"},
		"no cluster":      {changed(func(i *Invite) { i.ClusterID = "" }), "has no cluster ID; request a new invite"},
		"no gateway":      {changed(func(i *Invite) { i.Gateways = nil }), "has no gateways"},
		"no endpoint":     {changed(func(i *Invite) { i.Gateways[0].Endpoints = nil }), "no gateway has an endpoint"},
		"no private key":  {changed(func(i *Invite) { i.PrivateKey = "" }), "private key is not 32 bytes"},
		"no public key":   {changed(func(i *Invite) { i.Gateways[0].PublicKey = "x" }), "public key of gateway b-0 is not 32 bytes"},
		"no prefix":       {changed(func(i *Invite) { i.Prefixes[0] = "all" }), `"all" is not a prefix`},
	} {
		_, err := ParseToken(c.text, noon)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: says %v, and should say %q", name, err, c.says)
		} else if strings.Contains(err.Error(), string(secret(t))) {
			t.Errorf("%s: the error holds the key", name)
		}
	}
}

func TestThePrivateKeyOfAnInvitePrintsAsAWord(t *testing.T) {
	i := invite(t)
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(form, i); strings.Contains(text, string(i.PrivateKey)) || !strings.Contains(text, "[secret]") {
			t.Errorf("%s prints %s", form, text)
		}
	}
}

func TestTheTemporaryKeyPairIsOneOfWireGuard(t *testing.T) {
	// RFC 7748, section 6.1: Alice's.
	private, err := NewPrivateKey(bytes.NewReader([]byte{
		0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45,
		0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a}))
	must(t, err)
	public, err := private.Public()
	must(t, err)
	if want := v1alpha1.PublicKey("hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="); public != want {
		t.Errorf("public key %s, want %s", public, want)
	}
	raw, err := base64.StdEncoding.DecodeString(string(private))
	must(t, err)
	if raw[0]&7 != 0 || raw[31]&192 != 64 {
		t.Errorf("not clamped, as wg genkey does: % x", raw)
	}
	if _, err := NewPrivateKey(strings.NewReader("short")); err == nil {
		t.Error("a key was made without enough randomness")
	}
}

func FuzzToken(f *testing.F) {
	whole := token(f, invite(f))
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add("strait-invite-v1.")
	f.Add("strait-invite-v2." + whole[17:])
	f.Add("strait-invite-v1." + base64.RawURLEncoding.EncodeToString([]byte(`{"clusterID":"a","gateways":[{}],"privateKey":"","notAfter":"2026-11-21T12:00:00Z"}`)))
	f.Fuzz(func(t *testing.T, text string) {
		i, err := ParseToken(text, noon.Add(-1))
		if err != nil {
			return
		}
		again, err := i.Token()
		if err != nil || again != strings.TrimSpace(text) {
			t.Errorf("%q was read, and is written as %q, %v", text, again, err)
		}
		if _, err := i.PrivateKey.Public(); err != nil || len(i.Gateways) == 0 || i.ClusterID == "" {
			t.Errorf("%q was taken for an invite", text)
		}
	})
}
