// Package archive packs files of a release. The same arguments make the same bytes.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"time"
)

// File is a file in an archive.
type File struct {
	Name    string
	Mode    fs.FileMode
	Content []byte
}

// Tar returns a tar of files that root owns, with this time; zero: 1970.
func Tar(files []File, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: int64(f.Mode), Size: int64(len(f.Content)), ModTime: made, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// Gzip compresses content.
func Gzip(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression) // no name, no time
	if err != nil {
		return nil, err
	}
	_, err = z.Write(content)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

// TarGzip returns a compressed Tar.
func TarGzip(files []File, made time.Time) ([]byte, error) {
	content, err := Tar(files, made)
	if err != nil {
		return nil, err
	}
	return Gzip(content)
}

// Zip returns a zip of files with this time; zero: none.
func Zip(files []File, made time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate}
		if !made.IsZero() {
			header.Modified = made.UTC()
		}
		header.SetMode(f.Mode)
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.Content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// Sum returns the SHA-256 of content in hexadecimal.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
