package main

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"strait.dev/strait/internal/archive"
)

// layout is an OCI image layout being built: blobs by file name.
type layout struct{ blobs map[string][]byte }

func (l *layout) add(mediaType string, blob []byte) descriptor {
	sum := archive.Sum(blob)
	l.blobs["blobs/sha256/"+sum] = blob
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(blob)}
}

func (l *layout) addJSON(mediaType string, form any) descriptor {
	return l.add(mediaType, toJSON(form))
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
	files := []archive.File{{Name: "oci-layout", Mode: 0o644, Content: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {Name: "index.json", Mode: 0o644, Content: toJSON(top)}}
	for _, name := range slices.Sorted(maps.Keys(l.blobs)) {
		files = append(files, archive.File{Name: name, Mode: 0o644, Content: l.blobs[name]})
	}
	return archive.Tar(files, time.Time{})
}
