package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"strait.dev/strait/internal/smallfile"
)

// Write writes a run as JSON.
func Write(w io.Writer, r *Run) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Read reads what Write wrote, including earlier schema versions that it supports.
func Read(from io.Reader) (*Run, error) {
	r := new(Run)
	if err := json.NewDecoder(from).Decode(r); err != nil {
		return nil, fmt.Errorf("not a benchmark result: %w; write one with: strait bench -o json --file FILE", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("its schema is %q, and this version reads %q; run the benchmark again with this version", r.Schema, Schema)
	}
	for i := range r.Samples {
		if err := r.Samples[i].check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// ReadFile reads a run from a file. Errors contain its name.
func ReadFile(name string) (*Run, error) {
	text, err := smallfile.Read(name, smallfile.Result)
	if err != nil {
		return nil, err
	}
	r, err := Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// WriteFile creates a file, or replaces its content, by calling write.
func WriteFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
