package gather

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"sync"
	"time"
)

// errFull is the end of what an archive may hold.
var errFull = errors.New("left out: the archive would be larger than --max-size")

// archive is a tar file in gzip, of a size that is bounded. Each file is compressed by
// itself, so that its size is known before it is written. It may be used concurrently.
type archive struct {
	root  string // the folder that everything is in
	now   time.Time
	limit int64 // bytes, of the archive

	mu   sync.Mutex
	to   io.Writer
	size int64
	err  error // of writing; nothing is written after one
}

// add writes a file, or is errFull. With always it is written in any case.
func (a *archive) add(path string, body []byte, always bool) error {
	packed, err := a.pack(path, body)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	if !always && a.size+int64(len(packed)) > a.limit {
		return errFull
	}
	return a.write(packed)
}

// end writes the end of the archive.
func (a *archive) end() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	packed, err := compress(make([]byte, 2*512)) // two empty blocks end a tar file
	if err != nil || a.err != nil {
		return errors.Join(a.err, err)
	}
	return a.write(packed)
}

// write appends bytes. a.mu is held.
func (a *archive) write(packed []byte) error {
	n, err := a.to.Write(packed)
	a.size += int64(n)
	a.err = err
	return err
}

// pack is a file as it stands in the archive.
func (a *archive) pack(path string, body []byte) ([]byte, error) {
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	err := w.WriteHeader(&tar.Header{Name: a.root + "/" + path, Mode: 0o600, Size: int64(len(body)), ModTime: a.now, Format: tar.FormatPAX})
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return nil, err
	}
	return compress(plain.Bytes())
}

func compress(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err := w.Close()
	return packed.Bytes(), err
}
