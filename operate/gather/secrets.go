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

// The length of a WireGuard key in bytes, and in base64.
const (
	keyLength   = 32
	keyInBase64 = 44
)

// leastSecret is the minimum length in bytes of a Secret's content that is searched for:
// shorter ones occur by chance.
const leastSecret = 12

// redacted replaces what was found.
const redacted = "[redacted]"

var (
	invites    = regexp.MustCompile(`strait-invite-v[0-9A-Za-z]*\.[0-9A-Za-z_=-]+`)
	tokens     = regexp.MustCompile(`eyJ[0-9A-Za-z_-]{6,}\.[0-9A-Za-z_-]+\.[0-9A-Za-z_-]*`)
	pem        = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)
	userInfo   = regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+@`)
	base64Runs = regexp.MustCompile(`[0-9A-Za-z+/_-]{40,}={0,2}`)
	hexRuns    = regexp.MustCompile(`[0-9A-Fa-f]{64,}`)
	// Values after names of secrets in logs.
	named = regexp.MustCompile(`(?i)((?:password|passwd|secret|token|authorization|api[_-]?key|private[_-]?key|preshared[_-]?key)["']?\s*[:=]\s*(?:bearer\s+|basic\s+)?["']?)([^\s"',;}\]]{6,})`)
)

// scanner redacts secrets in text. It is safe for concurrent use once all secrets have been
// added.
type scanner struct {
	public map[string]bool // public keys in base64
	exact  [][]byte        // contents of Secrets in all encodings; longest first
	found  atomic.Int64
}

// addPublic registers public keys, which are not redacted.
func (s *scanner) addPublic(keys ...v1alpha1.PublicKey) {
	if s.public == nil {
		s.public = map[string]bool{}
	}
	for _, k := range keys {
		s.public[string(k)] = true
	}
}

func (s *scanner) addSecret(content []byte) {
	content = bytes.TrimSpace(content)
	if len(content) < leastSecret || s.public[string(content)] {
		return
	}
	forms := [][]byte{content}
	raw, err := base64.StdEncoding.DecodeString(string(content))
	if err == nil && len(raw) == keyLength { // WireGuard also prints keys in hex
		forms = append(forms, []byte(hex.EncodeToString(raw)), []byte(base64.RawURLEncoding.EncodeToString(raw)))
	}
	for _, form := range slices.Clone(forms) {
		for _, with := range []string{"", "\n"} { // encodings of file contents include a final newline
			plain := append(slices.Clone(form), with...)
			forms = append(forms, []byte(strings.TrimRight(base64.StdEncoding.EncodeToString(plain), "=")))
		}
	}
	s.exact = append(s.exact, forms...)
	slices.SortStableFunc(s.exact, func(a, b []byte) int { return len(b) - len(a) })
}

// redact redacts secrets in text from allowed fields.
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

// redactText redacts secrets in free text.
func (s *scanner) redactText(text []byte) []byte {
	text = named.ReplaceAllFunc(text, func(match []byte) []byte {
		parts := named.FindSubmatch(match)
		if bytes.HasPrefix(parts[2], []byte("/")) || s.public[string(parts[2])] { // paths are not secret
			return match
		}
		s.found.Add(1)
		return append(slices.Clone(parts[1]), redacted...)
	})
	return s.redact(text)
}

// replace replaces all matches of a form by the result of a function of the preceding text
// and the match.
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

// base64 redacts a key in a run of base64 characters. Paths and names match too, so only
// runs with the length and ending of a key are redacted.
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
	// Data of Secrets: a key, a token or an invite that was encoded again.
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(run), "="))
	if err != nil {
		return run
	}
	if inner := (&scanner{public: s.public}); !bytes.Equal(inner.redact(plain), plain) {
		return []byte(redacted)
	}
	return run
}

// decodes reports whether characters are a key in base64.
func decodes(letters []byte) bool {
	for _, form := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if raw, err := form.Strict().DecodeString(string(letters)); err == nil && len(raw) == keyLength {
			return true
		}
	}
	return false
}

// hex redacts a run of hexadecimal digits if it may be a key, not if it is a digest of an
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

func publicKeys(p *v1alpha1.Peering) (keys []v1alpha1.PublicKey) {
	for _, peer := range p.Spec.Peers {
		keys = append(keys, peer.PublicKey)
	}
	for _, g := range p.Status.Gateways {
		keys = append(keys, g.PublicKey, g.NextPublicKey)
	}
	return append(keys, announcedKeys(p.Status.Announcement)...)
}

func reportedKeys(r *v1alpha1.GatewayReport) []v1alpha1.PublicKey {
	return append(announcedKeys(r.Status.Announcement), r.Status.PublicKey, r.Status.NextPublicKey)
}

func announcedKeys(a *v1alpha1.Announcement) (keys []v1alpha1.PublicKey) {
	if a == nil {
		return nil
	}
	keys = append(keys, a.Superseded...)
	for _, g := range a.Gateways {
		keys = append(keys, g.PublicKeys...)
	}
	return keys
}
