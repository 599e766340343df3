package gather

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The length of a key of WireGuard in bytes, and in its usual form.
const (
	keyLength   = 32
	keyInBase64 = 44
)

// leastSecret is the shortest content of a Secret that is looked for, bytes: shorter ones
// stand everywhere by chance.
const leastSecret = 12

// redacted takes the place of what was found.
const redacted = "[redacted]"

var (
	invites    = regexp.MustCompile(`strait-invite-v[0-9A-Za-z]*\.[0-9A-Za-z_=-]+`)
	tokens     = regexp.MustCompile(`eyJ[0-9A-Za-z_-]{6,}\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*`)
	pem        = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)
	userInfo   = regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+@`)
	base64Runs = regexp.MustCompile(`[0-9A-Za-z+/_-]{40,}={0,2}`)
	hexRuns    = regexp.MustCompile(`[0-9A-Fa-f]{64,}`)
	// What a program calls so when it logs it.
	named = regexp.MustCompile(`(?i)((?:password|passwd|secret|token|authorization|api[_-]?key|private[_-]?key|preshared[_-]?key)["']?\s*[:=]\s*(?:bearer\s+|basic\s+)?["']?)([^\s"',;}\]]{6,})`)
)

// scanner replaces secrets in text. It may be used concurrently once it has been made.
type scanner struct {
	public map[string]bool // keys in base64 that are for everybody
	exact  [][]byte        // what is in Secrets, in every form that it may stand in; longest first
	found  atomic.Int64
}

// addPublic makes keys known as public.
func (s *scanner) addPublic(keys ...v1alpha1.PublicKey) {
	if s.public == nil {
		s.public = map[string]bool{}
	}
	for _, k := range keys {
		s.public[string(k)] = true
	}
}

// addSecret makes the content of a Secret known.
func (s *scanner) addSecret(content []byte) {
	content = bytes.TrimSpace(content)
	if len(content) < leastSecret || s.public[string(content)] {
		return
	}
	forms := [][]byte{content}
	raw, err := base64.StdEncoding.DecodeString(string(content))
	if err == nil && len(raw) == keyLength { // WireGuard logs and dumps keys in hex too
		forms = append(forms, []byte(hex.EncodeToString(raw)), []byte(base64.RawURLEncoding.EncodeToString(raw)))
	}
	for _, form := range slices.Clone(forms) {
		for _, with := range []string{"", "\n"} { // as files are, in an object that was printed
			plain := append(slices.Clone(form), with...)
			forms = append(forms, []byte(strings.TrimRight(base64.StdEncoding.EncodeToString(plain), "=")))
		}
	}
	s.exact = append(s.exact, forms...)
	slices.SortStableFunc(s.exact, func(a, b []byte) int { return len(b) - len(a) })
}

// redact is text without secrets, of fields that are allowed.
func (s *scanner) redact(text []byte) []byte {
	for _, secret := range s.exact {
		if n := bytes.Count(text, secret); n > 0 {
			s.found.Add(int64(n))
			text = bytes.ReplaceAll(text, secret, []byte(redacted))
		}
	}
	for _, form := range []*regexp.Regexp{pem, invites, tokens} {
		text = s.replace(form, text, func([]byte, []byte) []byte { return []byte(redacted) })
	}
	text = s.replace(userInfo, text, func([]byte, []byte) []byte { return []byte("://" + redacted + "@") })
	text = s.replace(base64Runs, text, func(_, run []byte) []byte { return s.base64(run) })
	return s.replace(hexRuns, text, s.hex)
}

// redactText is text without secrets, of what anybody may have written.
func (s *scanner) redactText(text []byte) []byte {
	text = named.ReplaceAllFunc(text, func(match []byte) []byte {
		parts := named.FindSubmatch(match)
		if bytes.HasPrefix(parts[2], []byte("/")) || s.public[string(parts[2])] { // where it is kept says nothing of it
			return match
		}
		s.found.Add(1)
		return append(slices.Clone(parts[1]), redacted...)
	})
	return s.redact(text)
}

// replace replaces what has a form, by what it becomes with what stands before it.
func (s *scanner) replace(form *regexp.Regexp, text []byte, by func(before, match []byte) []byte) []byte {
	var out []byte
	at := 0
	for _, m := range form.FindAllIndex(text, -1) {
		match := text[m[0]:m[1]]
		is := by(text[:m[0]], match)
		if bytes.Equal(is, match) {
			continue
		}
		s.found.Add(1)
		out = append(append(out, text[at:m[0]]...), is...)
		at = m[1]
	}
	if at == 0 {
		return text
	}
	return append(out, text[at:]...)
}

// base64 is a run of letters of base64 without the key in it. Paths and names are such
// runs too: of them only what has a key's length and end is taken for one.
func (s *scanner) base64(run []byte) []byte {
	if s.public[string(run)] {
		return run
	}
	if n := len(run); n >= keyInBase64 && run[n-1] == '=' && run[n-2] != '=' {
		last := run[n-keyInBase64:]
		if decodes(last) && !s.public[string(last)] {
			return append(slices.Clone(run[:n-keyInBase64]), redacted...)
		}
		return run
	}
	mixed := bytes.ContainsFunc(run, func(r rune) bool { return 'A' <= r && r <= 'Z' }) && bytes.ContainsFunc(run, func(r rune) bool { return 'a' <= r && r <= 'z' })
	if len(run) == keyInBase64-1 && mixed && decodes(append(slices.Clone(run), '=')) && !s.public[string(run)+"="] {
		return []byte(redacted)
	}
	// A key, a token or an invite that was encoded once more, as the data of a Secret are.
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(run), "="))
	if err != nil {
		return run
	}
	if inner := (&scanner{public: s.public}); !bytes.Equal(inner.redact(plain), plain) {
		return []byte(redacted)
	}
	return run
}

// decodes reports whether letters are a key in base64.
func decodes(letters []byte) bool {
	for _, form := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if raw, err := form.Strict().DecodeString(string(letters)); err == nil && len(raw) == keyLength {
			return true
		}
	}
	return false
}

// hex is a run of hexadecimal digits, replaced if it may be a key: not if it names an
// image, a container or the like.
func (s *scanner) hex(before, run []byte) []byte {
	raw, err := hex.DecodeString(string(run))
	if err != nil || len(raw) != keyLength || s.public[base64.StdEncoding.EncodeToString(raw)] {
		return run
	}
	for _, digest := range []string{"sha256:", "://", "sha256-", "cri-containerd-", "checksum/config: "} {
		if bytes.HasSuffix(before, []byte(digest)) {
			return run
		}
	}
	return []byte(redacted)
}

// publicKeys are those that a Peering names.
func publicKeys(p *v1alpha1.Peering) (keys []v1alpha1.PublicKey) {
	for _, peer := range p.Spec.Peers {
		keys = append(keys, peer.PublicKey)
	}
	for _, g := range p.Status.Gateways {
		keys = append(keys, g.PublicKey, g.NextPublicKey)
	}
	for _, a := range p.Status.Announcements {
		keys = append(keys, a.Superseded...)
		for _, g := range a.Gateways {
			keys = append(keys, g.PublicKeys...)
		}
	}
	return keys
}
