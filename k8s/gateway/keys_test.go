package gateway

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeysAreReadNewestFirstAndWhatIsNoneIsTold(t *testing.T) {
	dir := t.TempDir()
	o := Options{KeyDir: dir, InviteKeyFile: filepath.Join(dir, "invite", "invite.key")}
	must(t, os.Mkdir(filepath.Join(dir, "invite"), 0o700))
	for name, text := range map[string]string{
		"2.key": string(privateKey(2)), "10.key": string(privateKey(10)), "1.key": string(privateKey(1)), "invite/invite.key": string(privateKey(9)),
		"0.key": string(privateKey(4)), "3.key": "c2VjcmV0", "b.key": string(privateKey(5)), "..data": "", "notes": "",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	keys, err := o.readKeys()
	var generations []int32
	for _, k := range keys {
		generations = append(generations, k.Generation)
	}
	if len(generations) != 4 || generations[0] != 10 || generations[1] != 2 || generations[2] != 1 || generations[3] != 0 {
		t.Errorf("generations %v, want 10, 2, 1 and the invite's 0", generations)
	}
	for _, says := range []string{"0.key", "3.key", "b.key"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("nothing is told of %s: %v", says, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "c2VjcmV0") {
		t.Errorf("a secret is told: %v", err)
	}
}

func TestKeysThatCannotBeReadForAMomentStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	must(t, os.Mkdir(dir, 0o700))
	log := new(bytes.Buffer)
	f := &follower{options: Options{KeyDir: dir}, log: slog.New(slog.NewTextHandler(log, nil))}
	f.loadKeys()
	if len(f.ownKeys()) != 0 || !strings.Contains(log.String(), "no key in") {
		t.Errorf("without a file: %d keys, logged %q", len(f.ownKeys()), log)
	}
	must(t, os.WriteFile(filepath.Join(dir, "1.key"), privateKey(1), 0o600))
	f.loadKeys()
	must(t, os.RemoveAll(dir))
	f.loadKeys()
	if keys := f.ownKeys(); len(keys) != 1 || keys[0].Generation != 1 {
		t.Errorf("after the folder went: %v", keys)
	}
}
