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

// errFull is the error of a file that exceeds the size limit of the archive.
var errFull = errors.New("left out: the archive would be larger than --max-size")

// archive is a gzip-compressed tar file of limited size. Each file is compressed
// separately, so that its size is known before it is written. It is safe for concurrent
// use.
type archive struct {
	root  string // directory of all files
	now   time.Time
	limit int64 // bytes, of the archive

	mu   sync.Mutex
	to   io.Writer
	size int64
	err  error // of writing; sticky
}

// add writes a file, or returns errFull. With always it is written in any case.
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

func (a *archive) end() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	packed, err := compress(make([]byte, 2*512)) // two empty blocks end a tar file
	if err != nil || a.err != nil {
		return errors.Join(a.err, err)
	}
	return a.write(packed)
}

// write appends bytes. The caller holds a.mu.
func (a *archive) write(packed []byte) error {
	n, err := a.to.Write(packed)
	a.size += int64(n)
	a.err = err
	return err
}

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
