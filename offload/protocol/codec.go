package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// EncodeTemplate encodes a template, and returns it with its hash.
func EncodeTemplate(t *corev1.PodTemplateSpec) (text []byte, hash string, err error) {
	text, err = encode(t, MaxTemplate)
	return text, Hash(text), err
}

// DecodeTemplate decodes the template with a hash from untrusted bytes.
func DecodeTemplate(b []byte, hash string) (*corev1.PodTemplateSpec, error) {
	t := new(corev1.PodTemplateSpec)
	return t, decodeHashed(b, hash, MaxTemplate, t)
}

// decodeHashed decodes a value with a hash from untrusted bytes. A field that this version does not
// know is an error: the value would change its meaning without it.
func decodeHashed(b []byte, hash string, limit int, v any) error {
	if len(b) > limit {
		return tooLong(limit)
	}
	if Hash(b) != hash {
		return errors.New("does not have this hash")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return decodeOne(d, v)
}

func tooLong(limit int) error { return fmt.Errorf("is longer than %d bytes", limit) }

func encode(v any, limit int) ([]byte, error) {
	text, err := json.Marshal(v)
	if err == nil && len(text) > limit {
		err = tooLong(limit)
	}
	return text, err
}

// decode decodes one JSON value of at most limit bytes. Unknown fields are ignored, because
// later versions may send them.
func decode(b []byte, limit int, v any) error {
	if len(b) > limit {
		return tooLong(limit)
	}
	return decodeOne(json.NewDecoder(bytes.NewReader(b)), v)
}

func decodeOne(d *json.Decoder, v any) error {
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("is not the expected JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has data after the JSON value; send one value")
	}
	return nil
}
