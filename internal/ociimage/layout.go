package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
)

// layout is an OCI image layout being built: blobs by file name.
type layout struct{ blobs map[string][]byte }

// add adds a blob and returns its descriptor.
func (l *layout) add(mediaType string, blob []byte) descriptor {
	sum := digest(blob)
	l.blobs["blobs/sha256/"+sum] = blob
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(blob)}
}

func (l *layout) addJSON(mediaType string, form any) descriptor {
	return l.add(mediaType, toJSON(form))
}

func digest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return hex.EncodeToString(sum[:])
}

// toJSON encodes a value of this package, which cannot fail.
func toJSON(form any) []byte {
	text, err := json.Marshal(form)
	if err != nil {
		panic(err)
	}
	return text
}

// archive returns the layout as a tar, in the order in which readers need the files.
func (l *layout) archive(top index) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := addFile(w, "oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return nil, err
	}
	if err := addFile(w, "index.json", 0o644, toJSON(top)); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(l.blobs)) {
		if err := addFile(w, name, 0o644, l.blobs[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// addFile adds a file owned by root, without a time.
func addFile(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
