package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"strait.dev/strait/config"
)

// MaxServices is the maximum number of Services that a cluster exports to another: the highest limit that a Peering can
// set.
const MaxServices = 10_000

const (
	// maxRecord is the maximum length of a record in bytes. It is the maximum length of an object in an API server
	// (etcd's default), so no record of the exporting cluster is longer. A record of 5 000 endpoints has 500 KB, and
	// 1.25 MB if the host name and the zone of each have the maximum length.
	maxRecord = 3 << 19
	// pageLength is the maximum length of all records and names in a page, unless the page has only one of them:
	// then maxRecord. It takes one second at 2 Mbit/s.
	pageLength = 256 << 10
	// pageServices is the maximum number of Services in a page.
	pageServices = 1000
	// maxPage is the maximum length of a page: of its contents, their separators, and its other fields.
	maxPage = maxRecord + 4*pageServices + 1<<10
)

// ServiceKey identifies an exported Service.
type ServiceKey struct{ Namespace, Name string }

// String returns NAMESPACE/NAME.
func (k ServiceKey) String() string { return k.Namespace + "/" + k.Name }

func (k ServiceKey) validate() error {
	if err := config.CheckLabel(k.Namespace); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if err := config.CheckLabel(k.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	return nil
}

func parseServiceKey(text string) (k ServiceKey, err error) {
	k.Namespace, k.Name, _ = strings.Cut(text, "/")
	return k, k.validate()
}

// ServiceRecord describes an exported Service: a JSON object with the fields namespace and name, which are its key. The
// channel reads no other field. JSON must not be changed.
type ServiceRecord struct {
	Key  ServiceKey
	JSON []byte
}

// digest identifies a set of records: the exclusive or of their hashes, so that it does not depend on an order, and
// changes with each record in constant time. Only the exporting cluster could choose records with equal digests, and
// would harm only its own exports.
type digest [16]byte

func digestOf(record []byte) digest {
	sum := sha256.Sum256(record)
	return digest(sum[:])
}

// toggle adds the hash of a record to the digest of a set, or removes it.
func (d *digest) toggle(record digest) {
	for i := range d {
		d[i] ^= record[i]
	}
}

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// servicePage is an answer of the exporting end.
type servicePage struct {
	Epoch    string // of the exporting process
	Revision int64  // the importer has all changes up to this one when it has stored the page
	Snapshot int64  // the revision at which a snapshot began that the page belongs to; 0: to none
	More     bool   // another page follows at once
	Stale    bool   // the exporting gateway has lost its API server
	Digest   string // of all records at the exporting end
	Services []ServiceRecord
	Removed  []ServiceKey
}

// servicePageV1 is the wire format of a servicePage. The exporting end writes it without this type: see writeTo.
type servicePageV1 struct {
	Epoch    string                   `json:"epoch"`
	Revision int64                    `json:"revision"`
	Snapshot int64                    `json:"snapshot,omitempty"`
	More     bool                     `json:"more,omitempty"`
	Stale    bool                     `json:"stale,omitempty"`
	Digest   string                   `json:"digest"`
	Services limited[json.RawMessage] `json:"services,omitempty"`
	Removed  limited[string]          `json:"removed,omitempty"`
}

// limited is a list of at most pageServices items. A longer one is an error before memory for it is allocated.
type limited[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *limited[T]) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if start, err := d.Token(); err != nil || start == nil {
		return err
	} else if start != json.Delim('[') {
		return errors.New("is not a list")
	}
	for *l = nil; d.More(); {
		if len(*l) == pageServices {
			return fmt.Errorf("has more than %d items", pageServices)
		}
		var item T
		if err := d.Decode(&item); err != nil {
			return err
		}
		*l = append(*l, item)
	}
	return nil
}

const maxEpoch = 64 // bytes

// decodeServicePage decodes version 1 from untrusted bytes. The form of the result is valid: limits, names, and that no
// Service occurs twice.
func decodeServicePage(b []byte) (*servicePage, error) {
	if len(b) > maxPage {
		return nil, tooLong(maxPage)
	}
	var w servicePageV1
	if err := decodeValue(b, &w); err != nil {
		return nil, err
	}
	p := &servicePage{Epoch: w.Epoch, Revision: w.Revision, Snapshot: w.Snapshot, More: w.More, Stale: w.Stale, Digest: w.Digest}
	if len(p.Epoch) == 0 || len(p.Epoch) > maxEpoch {
		return nil, fmt.Errorf("epoch: has %d bytes; send 1 to %d", len(p.Epoch), maxEpoch)
	}
	if p.Revision < 0 || p.Snapshot < 0 {
		return nil, errors.New("revision or snapshot: is negative")
	}
	seen := make(map[ServiceKey]bool, len(w.Services)+len(w.Removed))
	take := func(k ServiceKey) error {
		if seen[k] {
			return fmt.Errorf("%v occurs twice", k)
		}
		seen[k] = true
		return nil
	}
	for i, record := range w.Services {
		k, err := keyOf(record)
		if err == nil {
			err = take(k)
		}
		if err != nil {
			return nil, fmt.Errorf("services[%d]: %w", i, err)
		}
		p.Services = append(p.Services, ServiceRecord{k, record})
	}
	for i, text := range w.Removed {
		k, err := parseServiceKey(text)
		if err == nil {
			err = take(k)
		}
		if err != nil {
			return nil, fmt.Errorf("removed[%d]: %w", i, err)
		}
		p.Removed = append(p.Removed, k)
	}
	return p, nil
}

// keyOf returns the key of a record.
func keyOf(record []byte) (k ServiceKey, err error) {
	var w struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	if err := json.Unmarshal(record, &w); err != nil {
		return k, fmt.Errorf("is not a record: %w", foreign{err})
	}
	k = ServiceKey{w.Namespace, w.Name}
	return k, k.validate()
}
