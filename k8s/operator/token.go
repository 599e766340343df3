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
	"strconv"
	"strings"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// A token is one line, strait-invite-v1.<JSON in base64url>. It lets whoever has it join
// the cluster that gave it, once and for a time: it is a secret.
const (
	tokenPrefix  = "strait-invite-v"
	tokenVersion = 1
)

// MaxToken is more letters than the longest token has: 128 ranges, and 16 gateways with
// 16 endpoints of 260 letters.
const MaxToken = 128 << 10

// Invite is what a token says.
type Invite struct {
	ClusterID        v1alpha1.ClusterID `json:"clusterID"` // of the cluster that invites, as all that follows
	Prefixes         []v1alpha1.CIDR    `json:"prefixes,omitempty"`
	ExternalPrefixes []v1alpha1.CIDR    `json:"externalPrefixes,omitempty"`
	Gateways         []InviteGateway    `json:"gateways"`
	PrivateKey       PrivateKey         `json:"privateKey"` // of the invited cluster, until it has told its own keys
	NotAfter         time.Time          `json:"notAfter"`   // whole seconds, UTC
	Checksum         string             `json:"checksum"`   // of the rest, against what gets lost while copying
}

// InviteGateway is a gateway of the cluster that invites.
type InviteGateway struct {
	Name      string              `json:"name"`
	PublicKey v1alpha1.PublicKey  `json:"publicKey"`
	Endpoints []v1alpha1.Endpoint `json:"endpoints,omitempty"`
}

// PrivateKey is a WireGuard private key in base64. It prints as a word that tells nothing
// of it; only a token and a Secret hold it.
type PrivateKey string

func (PrivateKey) String() string   { return "[secret]" }
func (PrivateKey) GoString() string { return "[secret]" }

// NewPrivateKey makes a key of 32 random bytes.
func NewPrivateKey(random io.Reader) (PrivateKey, error) {
	key, err := peering.NewPrivateKey(random)
	return PrivateKey(key), err
}

// Public is the public half. The error does not repeat the key.
func (k PrivateKey) Public() (v1alpha1.PublicKey, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(string(k))
	if err != nil || len(raw) != 32 {
		return "", errors.New("the private key is not 32 bytes in base64")
	}
	private, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return "", errors.New("the private key is none of Curve25519")
	}
	return v1alpha1.PublicKey(base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())), nil
}

// Token is the invite in one line.
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

var errDamaged = errors.New("the token is not whole: copy all of its one line, from strait-invite to the end, or give it in a file with --file")

// ParseToken reads a token. Errors hold nothing of it.
func ParseToken(text string, now time.Time) (*Invite, error) {
	if len(text) > MaxToken {
		return nil, errors.New("this is longer than any token; give the one line that strait invite printed")
	}
	text = strings.TrimSpace(text)
	versioned, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return nil, fmt.Errorf("this is no token: give the line that strait invite printed; it begins with %s%d", tokenPrefix, tokenVersion)
	}
	version, body, ok := strings.Cut(versioned, ".")
	if !ok {
		return nil, errDamaged
	}
	if version != strconv.Itoa(tokenVersion) {
		if n, err := strconv.ParseUint(version, 10, 16); err == nil && n > tokenVersion {
			return nil, fmt.Errorf("the token is of version %d, and this strait knows version %d: upgrade it, or ask for an invite of version %d", n, tokenVersion, tokenVersion)
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
	// Whoever made it wrote it like this; so unknown fields, double ones and damage show.
	if again, err := i.Token(); err != nil || !bytes.Equal([]byte(again), []byte(text)) {
		return nil, errDamaged
	}
	if err := i.check(); err != nil {
		return nil, fmt.Errorf("the token cannot be used: %w; ask for a new invite", err)
	}
	if !now.Before(i.NotAfter) {
		return nil, fmt.Errorf("the invite of cluster %s expired at %s; ask for a new invite", i.ClusterID, i.NotAfter.Format(time.RFC3339))
	}
	return &i, nil
}

// keys are those of the gateways to call.
func (i *Invite) keys() (keys []v1alpha1.PublicKey) {
	for _, g := range i.Gateways {
		keys = append(keys, g.PublicKey)
	}
	return keys
}

// check is for what the API server would not say in words that fit.
func (i *Invite) check() error {
	if i.ClusterID == "" {
		return errors.New("it names no cluster")
	}
	if len(i.Gateways) == 0 {
		return errors.New("it names no gateway")
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
		return errors.New("it has no endpoint to call")
	}
	for _, list := range [][]v1alpha1.CIDR{i.Prefixes, i.ExternalPrefixes} {
		for _, cidr := range list {
			if _, err := netip.ParsePrefix(string(cidr)); err != nil {
				return fmt.Errorf("%q is no prefix", cidr)
			}
		}
	}
	return nil
}
