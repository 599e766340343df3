package control

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strait.dev/strait/config"
)

// Limits of an Announcement.
const (
	maxPrefixes  = 64 // in each list
	maxGateways  = 16
	maxKeys      = 2 // of a gateway: the new one and the old one
	maxEndpoints = 8 // of a gateway
)

// MaxRevision is the highest revision of an announcement.
const MaxRevision = 1 << 62

// Announcement is what a cluster announces to another about itself. Its JSON is that of version 1.
type Announcement struct {
	Revision         int64          `json:"revision"`           // issued by the announcing cluster, rising from 1
	Cluster          string         `json:"cluster"`            // ID of the announcing cluster
	Gateway          string         `json:"gateway"`            // name of the gateway that sends it
	Prefixes         []netip.Prefix `json:"prefixes"`           // its pods that the receiver may reach
	ExternalPrefixes []netip.Prefix `json:"externalPrefixes"`   // its nodes, gateways, mapped hosts
	Gateways         []Gateway      `json:"gateways"`           // all its gateways for this peering, including the sender
	Lender           *Lender        `json:"lender,omitempty"`   // of its pods' capacity; nil: it lends nothing
	Borrower         string         `json:"borrower,omitempty"` // fingerprint of its borrower's certificate; empty: it borrows nothing
}

// Lender is where a cluster's lender is reached, and the fingerprint of its certificate.
type Lender struct {
	Address     netip.Addr `json:"address"` // in the announcing cluster's external prefixes
	Port        int32      `json:"port"`
	Fingerprint string     `json:"fingerprint"`
}

// Gateway is one gateway of the announcing cluster.
type Gateway struct {
	Name       string       `json:"name"`
	PublicKeys []config.Key `json:"publicKeys"` // newest first, one or two
	Endpoints  []string     `json:"endpoints"`  // host:port, best first; empty: it accepts no connections
}

// Validate checks the form: all limits, all names, and that no address, key or name occurs twice. It does not check
// grants. The error names the field.
func (a *Announcement) Validate() error {
	if err := config.CheckLabel(a.Cluster); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := config.CheckLabel(a.Gateway); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if a.Revision < 1 || a.Revision > MaxRevision {
		return fmt.Errorf("revision: %d is out of range; use 1 to %d", a.Revision, int64(MaxRevision))
	}
	if err := a.validatePrefixes(); err != nil {
		return err
	}
	if err := a.validateOffload(); err != nil {
		return err
	}
	return a.validateGateways()
}

func (a *Announcement) validateOffload() error {
	if a.Borrower != "" && !isFingerprint(a.Borrower) {
		return errors.New("borrower: is not a fingerprint of 64 hexadecimal digits")
	}
	l := a.Lender
	switch {
	case l == nil:
		return nil
	case !slices.ContainsFunc(a.ExternalPrefixes, func(p netip.Prefix) bool { return p.Contains(l.Address) }):
		return fmt.Errorf("lender.address: %v is in no external prefix; announce an address that the cluster maps", l.Address)
	case l.Port < 1 || l.Port > 65535:
		return fmt.Errorf("lender.port: %d is out of range; use 1 to 65535", l.Port)
	case !isFingerprint(l.Fingerprint):
		return errors.New("lender.fingerprint: is not a fingerprint of 64 hexadecimal digits")
	}
	return nil
}

// isFingerprint reports whether a text is the fingerprint of a certificate.
func isFingerprint(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

func (a *Announcement) validatePrefixes() error {
	var taken []netip.Prefix
	for _, list := range []struct {
		field    string
		prefixes []netip.Prefix
	}{{"prefixes", a.Prefixes}, {"externalPrefixes", a.ExternalPrefixes}} {
		if len(list.prefixes) > maxPrefixes {
			return fmt.Errorf("%s: %d are too many; announce at most %d", list.field, len(list.prefixes), maxPrefixes)
		}
		for i, p := range list.prefixes {
			if err := config.CheckPrefix(p); err != nil {
				return fmt.Errorf("%s[%d]: %w", list.field, i, err)
			}
			if at := slices.IndexFunc(taken, p.Overlaps); at >= 0 {
				return fmt.Errorf("%s[%d]: %v overlaps %v; announce each address once", list.field, i, p, taken[at])
			}
			taken = append(taken, p)
		}
	}
	return nil
}

func (a *Announcement) validateGateways() error {
	if len(a.Gateways) > maxGateways {
		return fmt.Errorf("gateways: %d are too many; announce at most %d", len(a.Gateways), maxGateways)
	}
	names, keys := make(map[string]bool), make(map[config.Key]bool)
	for i := range a.Gateways {
		g := &a.Gateways[i]
		if err := g.validate(names, keys); err != nil {
			return fmt.Errorf("gateways[%d].%w", i, err)
		}
	}
	if !names[a.Gateway] {
		return fmt.Errorf("gateways: the sender %s is missing; announce it too", a.Gateway)
	}
	return nil
}

// validate checks a gateway. Its name and keys must be unique.
func (g *Gateway) validate(names map[string]bool, keys map[config.Key]bool) error {
	if err := config.CheckLabel(g.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if names[g.Name] {
		return fmt.Errorf("name: %s occurs twice; give each gateway a unique name", g.Name)
	}
	names[g.Name] = true
	if n := len(g.PublicKeys); n == 0 || n > maxKeys {
		return fmt.Errorf("publicKeys: %d keys; announce 1 to %d", n, maxKeys)
	}
	for i, k := range g.PublicKeys {
		if err := config.CheckPublicKey(k); err != nil {
			return fmt.Errorf("publicKeys[%d]: %w", i, err)
		}
		if keys[k] {
			return fmt.Errorf("publicKeys[%d]: %v occurs twice; give each gateway its own key pair", i, k)
		}
		keys[k] = true
	}
	if len(g.Endpoints) > maxEndpoints {
		return fmt.Errorf("endpoints: %d are too many; announce at most %d", len(g.Endpoints), maxEndpoints)
	}
	for i, e := range g.Endpoints {
		if err := config.CheckEndpoint(e); err != nil {
			return fmt.Errorf("endpoints[%d]: %w", i, err)
		}
		if slices.Contains(g.Endpoints[:i], e) {
			return fmt.Errorf("endpoints[%d]: %s occurs twice; announce it once", i, e)
		}
	}
	return nil
}
