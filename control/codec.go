package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"strait.dev/strait/config"
)

// maxBody is the maximum length of a request or response body in bytes.
const maxBody = 64 << 10

func tooLong(limit int) error { return fmt.Errorf("is longer than %d bytes", limit) }

// announcementV1 is the wire format of an Announcement.
type announcementV1 struct {
	Revision         int64       `json:"revision"`
	Cluster          string      `json:"cluster"`
	Gateway          string      `json:"gateway"`
	Prefixes         []string    `json:"prefixes"`
	ExternalPrefixes []string    `json:"externalPrefixes"`
	Gateways         []gatewayV1 `json:"gateways"`
	Lender           *lenderV1   `json:"lender,omitempty"`
	Borrower         string      `json:"borrower,omitempty"`
}

type lenderV1 struct {
	Address     string `json:"address"`
	Port        int32  `json:"port"`
	Fingerprint string `json:"fingerprint"`
}

type gatewayV1 struct {
	Name       string   `json:"name"`
	PublicKeys []string `json:"publicKeys"`
	Endpoints  []string `json:"endpoints"`
}

// encode encodes a valid announcement in version 1.
func (a *Announcement) encode() ([]byte, error) {
	w := announcementV1{Revision: a.Revision, Cluster: a.Cluster, Gateway: a.Gateway, Prefixes: texts(a.Prefixes), ExternalPrefixes: texts(a.ExternalPrefixes), Borrower: a.Borrower}
	if l := a.Lender; l != nil {
		w.Lender = &lenderV1{l.Address.String(), l.Port, l.Fingerprint}
	}
	for _, g := range a.Gateways {
		w.Gateways = append(w.Gateways, gatewayV1{g.Name, texts(g.PublicKeys), g.Endpoints})
	}
	b, err := json.Marshal(w)
	if err == nil && len(b) > maxBody {
		err = tooLong(maxBody)
	}
	return b, err
}

func texts[T fmt.Stringer](all []T) []string {
	list := make([]string, len(all))
	for i, x := range all {
		list[i] = x.String()
	}
	return list
}

// decodeAnnouncement decodes version 1 from untrusted bytes. The result is valid.
func decodeAnnouncement(b []byte) (*Announcement, error) {
	var w announcementV1
	if err := decode(b, &w); err != nil {
		return nil, err
	}
	a := &Announcement{Revision: w.Revision, Cluster: w.Cluster, Gateway: w.Gateway, Borrower: w.Borrower}
	var err error
	if l := w.Lender; l != nil {
		a.Lender = &Lender{Port: l.Port, Fingerprint: l.Fingerprint}
		if a.Lender.Address, err = netip.ParseAddr(l.Address); err != nil || a.Lender.Address.Zone() != "" {
			return nil, errors.New("lender.address: is not an address")
		}
	}
	if a.Prefixes, err = parseAll("prefixes", w.Prefixes, maxPrefixes, parsePrefix); err != nil {
		return nil, err
	}
	if a.ExternalPrefixes, err = parseAll("externalPrefixes", w.ExternalPrefixes, maxPrefixes, parsePrefix); err != nil {
		return nil, err
	}
	for i, g := range w.Gateways[:min(len(w.Gateways), maxGateways+1)] { // Validate checks the number
		keys, err := parseAll("publicKeys", g.PublicKeys, maxKeys, config.ParseKey)
		if err != nil {
			return nil, fmt.Errorf("gateways[%d].%w", i, err)
		}
		if len(g.Endpoints) == 0 {
			g.Endpoints = nil // normalise an empty list
		}
		a.Gateways = append(a.Gateways, Gateway{g.Name, keys, g.Endpoints})
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a, nil
}

// decode decodes one JSON value of at most maxBody bytes into v.
func decode(b []byte, v any) error {
	if len(b) > maxBody {
		return tooLong(maxBody)
	}
	return decodeValue(b, v)
}

// decodeValue decodes one JSON value into v. Unknown fields are ignored, because later versions may send them.
func decodeValue(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("is not the expected JSON: %w", foreign{err})
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has data after the JSON value; send one value")
	}
	return nil
}

// parseAll parses a list of at most most strings. The result of an empty list is nil.
func parseAll[T any](field string, list []string, most int, parse func(string) (T, error)) (all []T, err error) {
	if len(list) > most {
		return nil, fmt.Errorf("%s: %d are too many; announce at most %d", field, len(list), most)
	}
	for i, text := range list {
		x, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		all = append(all, x)
	}
	return all, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, errors.New("is not a prefix; write one like 10.0.0.0/16 or fd00:10::/48")
	}
	return p, nil
}
