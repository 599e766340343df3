package peering

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// Limits of an announcement in the status, as in the API.
const (
	maxPrefixes  = 64
	maxGateways  = 16
	maxKeys      = 2
	maxEndpoints = 8
	maxEndpoint  = 260 // bytes
	// maxAllEndpoints is the maximum length of all endpoints together, in bytes: 128 of IPv6
	// have 6 KiB.
	maxAllEndpoints = 8 << 10
)

func checkGateways(all []v1alpha1.AnnouncedGateway) error {
	if len(all) == 0 {
		return fmt.Errorf("it has no gateways")
	}
	if len(all) > maxGateways {
		return fmt.Errorf("it has %d gateways; announce at most %d", len(all), maxGateways)
	}
	names := make(map[string]bool)
	owners := make(map[v1alpha1.PublicKey]string)
	length := 0
	for _, g := range all {
		switch {
		case config.CheckLabel(g.Name) != nil:
			return fmt.Errorf("%s is not the name of a gateway", quote(g.Name))
		case names[g.Name]:
			return fmt.Errorf("two gateways have the name %s", g.Name)
		case len(g.PublicKeys) == 0:
			return fmt.Errorf("gateway %s has no public key", g.Name)
		case len(g.PublicKeys) > maxKeys:
			return fmt.Errorf("gateway %s has %d public keys; announce at most %d", g.Name, len(g.PublicKeys), maxKeys)
		case len(g.Endpoints) > maxEndpoints:
			return fmt.Errorf("gateway %s has %d endpoints; announce at most %d", g.Name, len(g.Endpoints), maxEndpoints)
		}
		names[g.Name] = true
		for _, key := range g.PublicKeys {
			if parsed, err := config.ParseKey(string(key)); err != nil || parsed == (config.Key{}) {
				return fmt.Errorf("gateway %s has an invalid public key", g.Name) // not quoted: it may be a private key
			}
			if owner, taken := owners[key]; taken {
				return fmt.Errorf("gateways %s and %s have the same public key; use a separate key pair for each", owner, g.Name)
			}
			owners[key] = g.Name
		}
		for _, e := range g.Endpoints {
			if kind := special(e); kind != "" {
				return fmt.Errorf("gateway %s: endpoint %s is %s; announce addresses at which the gateway can be reached from other hosts", g.Name, quote(e), kind)
			}
			if !IsEndpoint(e) {
				return fmt.Errorf("gateway %s: %s is not a valid endpoint", g.Name, quote(e))
			}
			length += len(e)
		}
	}
	if length > maxAllEndpoints {
		return fmt.Errorf("its endpoints have %d bytes; announce at most %d: shorter names, or fewer endpoints", length, maxAllEndpoints)
	}
	return nil
}

// special returns what an endpoint is that no other host has, empty if it is none.
func special(e v1alpha1.Endpoint) string {
	host, _, err := net.SplitHostPort(string(e))
	if err != nil {
		return ""
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		if name := "." + strings.ToLower(strings.TrimSuffix(host, ".")); strings.HasSuffix(name, ".localhost") {
			return "a name of the loopback address"
		}
		return ""
	}
	a = a.Unmap()
	switch {
	case a.IsLoopback():
		return "a loopback address"
	case a.IsLinkLocalUnicast():
		return "a link-local address"
	case a.IsMulticast():
		return "a multicast address"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return "an unspecified address"
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	case a.Is4() && a.As4()[0] >= 240:
		return "a reserved address"
	}
	return ""
}

var hostName = regexp.MustCompile(`^[0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?$`)

// IsEndpoint reports whether the API accepts an endpoint. It is stricter than a
// configuration: the API server would reject a whole status because of one invalid
// endpoint.
func IsEndpoint(e v1alpha1.Endpoint) bool {
	host, port, found := cutLast(string(e), ':')
	if number, err := strconv.ParseUint(port, 10, 16); !found || len(e) > maxEndpoint || err != nil || number == 0 || port[0] == '0' {
		return false
	}
	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		if inner, bracketed = strings.CutSuffix(inner, "]"); !bracketed {
			return false
		}
	}
	a, err := netip.ParseAddr(inner)
	if err != nil { // a name, whose last label is not numeric
		_, last, _ := cutLast("."+inner, '.')
		return !bracketed && hostName.MatchString(inner) && strings.Trim(last, "0123456789") != ""
	}
	special := a.IsUnspecified() || a.IsMulticast() || a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 224)
	return bracketed == a.Is6() && a.Zone() == "" && !a.Is4In6() && !special
}

func cutLast(s string, separator byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// quote quotes untrusted text, truncated to fit a line.
func quote[T ~string](text T) string {
	const maxQuoted = 64
	return strconv.Quote(strings.ToValidUTF8(string(text[:min(len(text), maxQuoted)]), ""))
}
