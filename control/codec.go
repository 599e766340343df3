package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxBody is the maximum length of a request or response body in bytes.
const maxBody = 64 << 10

func tooLong(limit int) error { return fmt.Errorf("is longer than %d bytes", limit) }

// encode encodes a valid announcement in version 1.
func (a *Announcement) encode() ([]byte, error) {
	b, err := json.Marshal(a)
	if err == nil && len(b) > maxBody {
		err = tooLong(maxBody)
	}
	return b, err
}

// decodeAnnouncement decodes version 1 from untrusted bytes. The result is valid.
func decodeAnnouncement(b []byte) (*Announcement, error) {
	a := new(Announcement)
	if err := decode(b, a); err != nil {
		return nil, err
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
