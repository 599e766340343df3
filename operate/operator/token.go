package operator

import (
	"bytes"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// A token is one line, strait-invite-v1.<JSON in base64url>. Its bearer can join the
// cluster that created it, once and for a limited time: it is a secret.
const (
	tokenPrefix  = "strait-invite-v"
	tokenVersion = 1
)

// MaxToken is an upper bound of the length of a token in bytes: 128 CIDRs, and 16 gateways
// with 16 endpoints of 260 bytes.
const MaxToken = 128 << 10

// Invite is the content of a token.
type Invite struct {
	ClusterID        v1alpha1.ClusterID `json:"clusterID"` // of the inviting cluster, like all that follows
	Prefixes         []v1alpha1.CIDR    `json:"prefixes,omitempty"`
	ExternalPrefixes []v1alpha1.CIDR    `json:"externalPrefixes,omitempty"`
	Gateways         []InviteGateway    `json:"gateways"`
	PrivateKey       PrivateKey         `json:"privateKey"` // of the invited cluster, until it has announced its own keys
	NotAfter         time.Time          `json:"notAfter"`   // whole seconds, UTC
	Checksum         string             `json:"checksum"`   // of the rest, to detect incomplete copies
}

// InviteGateway is a gateway of the inviting cluster.
type InviteGateway struct {
	Name      string              `json:"name"`
	PublicKey v1alpha1.PublicKey  `json:"publicKey"`
	Endpoints []v1alpha1.Endpoint `json:"endpoints,omitempty"`
}

// PrivateKey is a WireGuard private key in base64. It prints as a placeholder; only a token
// and a Secret contain it.
type PrivateKey string

func (PrivateKey) String() string { return "[secret]" }

// GoString hides the key from %#v.
func (PrivateKey) GoString() string { return "[secret]" }

// NewPrivateKey returns a key of 32 random bytes.
func NewPrivateKey(random io.Reader) (PrivateKey, error) {
	key, err := peering.NewPrivateKey(random)
	return PrivateKey(key), err
}

// Public returns the public key. The error does not contain the private key.
func (k PrivateKey) Public() (v1alpha1.PublicKey, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(string(k))
	if err != nil || len(raw) != 32 {
		return "", errors.New("the private key is not 32 bytes in base64")
	}
	private, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return "", errors.New("the private key is not a Curve25519 key")
	}
	return v1alpha1.PublicKey(base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())), nil
}

// Token encodes the invite in one line.
func (i Invite) Token() (string, error) {
	i.Checksum = ""
	text, err := json.Marshal(i)
	if err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	sum := sha256.Sum256(text)
	i.Checksum = base64.RawURLEncoding.EncodeToString(sum[:8])
	if text, err = json.Marshal(i); err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	return tokenPrefix + strconv.Itoa(tokenVersion) + "." + base64.RawURLEncoding.EncodeToString(text), nil
}

var errDamaged = errors.New("the token is incomplete: copy the whole line, from strait-invite to the end, or pass it in a file with --file")

// ParseToken parses a token. Errors contain nothing of it.
func ParseToken(text string, now time.Time) (*Invite, error) {
	if len(text) > MaxToken {
		return nil, errors.New("the input is longer than any token; pass the line that strait invite printed")
	}
	text = strings.TrimSpace(text)
	versioned, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return nil, fmt.Errorf("not a token: pass the line that strait invite printed; it begins with %s%d", tokenPrefix, tokenVersion)
	}
	version, body, ok := strings.Cut(versioned, ".")
	if !ok {
		return nil, errDamaged
	}
	if version != strconv.Itoa(tokenVersion) {
		if n, err := strconv.ParseUint(version, 10, 16); err == nil && n > tokenVersion {
			return nil, fmt.Errorf("the token has version %d, and this strait supports version %d: upgrade strait, or request an invite of version %d", n, tokenVersion, tokenVersion)
		}
		return nil, errDamaged
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil {
		return nil, errDamaged
	}
	var i Invite
	if err := json.Unmarshal(plain, &i); err != nil {
		return nil, errDamaged
	}
	// Tokens have a canonical encoding, so re-encoding detects unknown fields, duplicate
	// fields and damage.
	if again, err := i.Token(); err != nil || !bytes.Equal([]byte(again), []byte(text)) {
		return nil, errDamaged
	}
	if err := i.check(); err != nil {
		return nil, fmt.Errorf("the token cannot be used: %w; request a new invite", err)
	}
	if !now.Before(i.NotAfter) {
		return nil, fmt.Errorf("the invite of cluster %s expired at %s; request a new invite", i.ClusterID, i.NotAfter.Format(time.RFC3339))
	}
	return &i, nil
}

func (i *Invite) keys() (keys []v1alpha1.PublicKey) {
	for _, g := range i.Gateways {
		keys = append(keys, g.PublicKey)
	}
	return keys
}

func (i *Invite) ranges() []v1alpha1.CIDR { return slices.Concat(i.Prefixes, i.ExternalPrefixes) }

// check validates what the API server would reject with an unclear message.
func (i *Invite) check() error {
	if i.ClusterID == "" {
		return errors.New("it has no cluster ID")
	}
	if len(i.Gateways) == 0 {
		return errors.New("it has no gateways")
	}
	if _, err := i.PrivateKey.Public(); err != nil {
		return err
	}
	reachableServiceType := false
	for _, g := range i.Gateways {
		if _, err := config.ParseKey(string(g.PublicKey)); err != nil {
			return fmt.Errorf("the public key of gateway %s %w", g.Name, err)
		}
		reachableServiceType = reachableServiceType || len(g.Endpoints) > 0
	}
	if !reachableServiceType {
		return errors.New("no gateway has an endpoint")
	}
	for _, list := range [][]v1alpha1.CIDR{i.Prefixes, i.ExternalPrefixes} {
		for _, cidr := range list {
			if _, err := netip.ParsePrefix(string(cidr)); err != nil {
				return fmt.Errorf("%q is not a prefix", cidr)
			}
		}
	}
	return nil
}
