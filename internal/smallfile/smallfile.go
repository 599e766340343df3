// Package smallfile reads files that a user names. A wrong name must not fill the memory:
// /dev/zero has no end.
package smallfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Limits of the files that users name, in bytes.
const (
	Key           = 4 << 10  // a key in base64
	Template      = 1 << 20  // what the API server stores of an object, about
	Configuration = 16 << 20 // a gateway's with thousands of nodes, or a kubeconfig
	Result        = 64 << 20 // of a benchmark
)

// Read returns a file of at most max bytes, or an error that has a *TooLargeError.
func Read(path string, max int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = &fs.PathError{Op: "read", Path: path, Err: &TooLargeError{max}}
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// TooLargeError is the error of a file that exceeds its limit, in bytes.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string {
	size, unit := e.Max>>10, "KiB"
	if size >= 1<<10 {
		size, unit = size>>10, "MiB"
	}
	return fmt.Sprintf("larger than the limit of %d %s", size, unit)
}
