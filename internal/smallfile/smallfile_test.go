package smallfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReadUpToItsLimit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(file, 8); string(text) != "12345678" || err != nil {
		t.Errorf("a file as large as the limit: %q, %v", text, err)
	}
	if text, err := Read(file, 7); text != nil || err == nil {
		t.Errorf("a larger file: %q, %v", text, err)
	}
	var large *TooLargeError
	if _, err := Read("/dev/zero", Template); !errors.As(err, &large) || err.Error() != "read /dev/zero: larger than the limit of 1 MiB" {
		t.Errorf("a file without an end: %v", err)
	}
	if _, err := Read("/dev/zero", Key); err == nil || err.Error() != "read /dev/zero: larger than the limit of 4 KiB" {
		t.Errorf("a key without an end: %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "absent"), 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
