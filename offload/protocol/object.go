package protocol

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// What a provider copies for the pods of a consumer.
const (
	KindConfigMap = "ConfigMap"
	KindSecret    = "Secret"
	KindService   = "Service" // with its endpoints outside of the provider
)

var kinds = []string{KindConfigMap, KindSecret, KindService}

// Object is one entry of a list: an object of the consumer of which the provider keeps a copy
// with the same name. An object that is not in the list has no copy.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Hash      string `json:"hash,omitempty"` // of its content; empty: not known now, the copy stays as it is
	Size      int    `json:"size,omitempty"` // of its encoded content, in bytes
}

// Key returns what identifies an object.
func (o *Object) Key() string { return ObjectKey(o.Kind, o.Namespace, o.Name) }

// ObjectKey is the key of the object with a kind and a name.
func ObjectKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// Content is the content of an object. Exactly one field is set.
type Content struct {
	ConfigMap *ConfigMap `json:"configMap,omitempty"`
	Secret    *Secret    `json:"secret,omitempty"`
	Service   *Service   `json:"service,omitempty"`
}

// ConfigMap is the content of a ConfigMap. A copy is never immutable, because the consumer may
// replace the object.
type ConfigMap struct {
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
}

// Secret is the content of a Secret.
type Secret struct {
	Type corev1.SecretType `json:"type,omitempty"`
	Data map[string][]byte `json:"data,omitempty"`
}

// Service is the content of a Service, with its endpoints that are not pods of the virtual node.
// Their addresses are those of the consumer.
type Service struct {
	Record          v1alpha1.ServiceRecord `json:"record"`
	TargetPorts     []intstr.IntOrString   `json:"targetPorts,omitempty"` // of each port in the record
	Selector        map[string]string      `json:"selector,omitempty"`
	PublishNotReady bool                   `json:"publishNotReady,omitempty"`
}

// Kind returns the kind of objects that have a content, empty if it is not valid.
func (c *Content) Kind() (kind string) {
	set := 0
	for of, is := range map[string]bool{KindConfigMap: c.ConfigMap != nil, KindSecret: c.Secret != nil, KindService: c.Service != nil} {
		if is {
			kind = of
			set++
		}
	}
	if set != 1 {
		return ""
	}
	return kind
}

// EncodeContent encodes a content, and returns it with its hash. Equal contents have equal hashes.
func EncodeContent(c *Content) (text []byte, hash string, err error) {
	text, err = encode(c, MaxContent)
	return text, Hash(text), err
}

// DecodeContent decodes the content with a hash from untrusted bytes.
func DecodeContent(b []byte, hash string) (*Content, error) {
	c := new(Content)
	if err := decodeHashed(b, hash, MaxContent, c); err != nil {
		return nil, err
	}
	if c.Kind() == "" {
		return nil, errors.New("the content is not that of one object")
	}
	return c, nil
}

func (o *Object) validate() error {
	switch {
	case !slices.Contains(kinds, o.Kind):
		return errors.New("kind: is not one that this version carries")
	case !isLabel(o.Namespace):
		return errors.New("namespace: is not the name of a namespace")
	case !isName(o.Name):
		return errors.New("name: is not the name of an object")
	case o.Hash != "" && !isHash(o.Hash):
		return errors.New("hash: is not 64 hexadecimal digits")
	case (o.Hash == "") != (o.Size == 0) || o.Size < 0 || o.Size > MaxContent:
		return fmt.Errorf("size: %d is out of range, or does not belong to the hash", o.Size)
	}
	return nil
}
