package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Pod is one entry of a list: a pod of the consumer that is bound to the virtual node.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`            // of the pod in the consumer
	Hash      string `json:"hash,omitempty"` // of its template; empty if it is deleting
	Deleting  bool   `json:"deleting,omitempty"`
	Grace     int64  `json:"grace,omitempty"`    // seconds, of a pod that is deleting
	Finished  bool   `json:"finished,omitempty"` // its status is terminal: no twin is made
	Once      bool   `json:"once,omitempty"`     // it has run, and may not run again: no second twin is made
}

// Key returns the pod's namespace and name.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// Desired is the whole list of pods that a consumer wants to run, or to end, and of the objects
// that these pods need.
type Desired struct {
	Epoch    string   `json:"epoch"`    // of the lender to which it is addressed
	Term     int32    `json:"term"`     // of the borrower
	Sequence int64    `json:"sequence"` // rises within the term
	Digest   string   `json:"digest"`   // of what follows
	Pods     []Pod    `json:"pods"`
	Objects  []Object `json:"objects,omitempty"`
	// Unread are namespaces whose Services the borrower does not know now: their copies stay.
	Unread []string `json:"unread,omitempty"`
}

// covered is the part of a list that its digest covers. What is received is covered in the bytes of
// the sender: a later version may have more fields.
type covered[Pods, Objects, Unread any] struct {
	Pods    Pods    `json:"pods"`
	Objects Objects `json:"objects,omitempty"`
	Unread  Unread  `json:"unread,omitempty"`
}

type received = covered[json.RawMessage, json.RawMessage, json.RawMessage]

func (c *covered[_, _, _]) digest() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // plain data, or JSON that was decoded, can be encoded
	}
	return Hash(text)
}

// Sign sets the digest of a list, which shows that it is whole, and returns it.
func (d *Desired) Sign() string {
	d.Digest = (&covered[[]Pod, []Object, []string]{d.Pods, d.Objects, d.Unread}).digest()
	return d.Digest
}

// Hash returns the hash under which a template or a content is sent.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// DecodeDesired decodes a list from untrusted bytes. The result is valid.
func DecodeDesired(b []byte) (*Desired, error) {
	d := new(Desired)
	if err := decode(b, MaxList, d); err != nil {
		return nil, err
	}
	var r received
	if err := json.Unmarshal(b, &r); err != nil || d.Digest != r.digest() {
		return nil, errors.New("digest: is not that of the list; send the whole list")
	}
	if err := d.validate(); err != nil {
		return nil, err
	}
	return d, nil
}

// Encode encodes a list. The digest is set.
func (d Desired) Encode() ([]byte, error) {
	d.Sign()
	if err := d.validate(); err != nil {
		return nil, err
	}
	return encode(d, MaxList)
}

func (d *Desired) validate() error {
	switch {
	case !isHash(d.Epoch):
		return errors.New("epoch: is not one; use that of the status stream")
	case d.Term < 1:
		return fmt.Errorf("term: %d is less than 1", d.Term)
	case d.Sequence < 1:
		return fmt.Errorf("sequence: %d is less than 1", d.Sequence)
	case len(d.Pods) > MaxPods:
		return fmt.Errorf("pods: %d are too many; send at most %d", len(d.Pods), MaxPods)
	case len(d.Unread) > maxLent || slices.ContainsFunc(d.Unread, func(name string) bool { return !isLabel(name) }):
		return fmt.Errorf("unread: is not a list of up to %d namespaces", maxLent)
	case len(d.Objects) > MaxObjects:
		return fmt.Errorf("objects: %d are too many; send at most %d", len(d.Objects), MaxObjects)
	}
	keys, uids := make(map[string]bool, len(d.Pods)), make(map[string]bool, len(d.Pods))
	for i := range d.Pods {
		p := &d.Pods[i]
		if err := p.validate(); err != nil {
			return fmt.Errorf("pods[%d].%w", i, err)
		}
		if keys[p.Key()] || uids[p.UID] {
			return fmt.Errorf("pods[%d]: %s occurs twice", i, p.Key())
		}
		keys[p.Key()], uids[p.UID] = true, true
	}
	for i := range d.Objects {
		o := &d.Objects[i]
		if err := o.validate(); err != nil {
			return fmt.Errorf("objects[%d].%w", i, err)
		}
		if keys[o.Key()] { // which has a kind, so it is not that of a pod
			return fmt.Errorf("objects[%d]: %s occurs twice", i, o.Key())
		}
		keys[o.Key()] = true
	}
	return nil
}

func (p *Pod) validate() error {
	switch {
	case !isLabel(p.Namespace):
		return errors.New("namespace: is not the name of a namespace")
	case !isName(p.Name):
		return errors.New("name: is not the name of a pod")
	case !isLabel(p.UID):
		return errors.New("uid: is not a UID")
	case p.Deleting && p.Hash != "":
		return errors.New("hash: is not used for a pod that is deleting")
	case !p.Deleting && !isHash(p.Hash):
		return errors.New("hash: is not 64 hexadecimal digits")
	case p.Grace < 0 || p.Grace > maxGrace || p.Grace != 0 && !p.Deleting:
		return fmt.Errorf("grace: %d is out of range, or the pod is not deleting", p.Grace)
	}
	return nil
}

// isHash reports whether a text is a SHA-256 in lower-case hexadecimal digits.
func isHash(text string) bool {
	return len(text) == 2*sha256.Size && strings.Trim(text, "0123456789abcdef") == ""
}

func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// isLabel reports whether a text is an RFC 1123 label: the name of a namespace, or a UID, which
// is also the value of a label.
func isLabel(text string) bool { return len(validation.IsDNS1123Label(text)) == 0 }
