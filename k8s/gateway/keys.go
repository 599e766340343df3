package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/translate"
)

// keySuffix is the suffix of key files: 1.key is the key of generation 1.
const keySuffix = ".key"

// readKeys reads the gateway's own keys, newest first, the key of an invite last.
// Unreadable keys are skipped and reported in the error.
func (o *Options) readKeys() (keys []translate.OwnKey, problems error) {
	entries, err := os.ReadDir(o.KeyDir)
	problems = err
	for _, e := range entries {
		number, isKey := strings.CutSuffix(e.Name(), keySuffix)
		if !isKey {
			continue // internal entries of the kubelet
		}
		generation, err := strconv.ParseInt(number, 10, 32)
		if err != nil || generation < 1 {
			problems = errors.Join(problems, fmt.Errorf("%s: the file name is not a key generation, like 1%s", filepath.Join(o.KeyDir, e.Name()), keySuffix))
			continue
		}
		key, err := ownKey(filepath.Join(o.KeyDir, e.Name()), int32(generation))
		if err != nil {
			problems = errors.Join(problems, err)
			continue
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b translate.OwnKey) int { return cmp.Compare(b.Generation, a.Generation) })
	if o.InviteKeyFile != "" {
		key, err := ownKey(o.InviteKeyFile, 0)
		switch {
		case err == nil:
			keys = append(keys, key)
		case !errors.Is(err, fs.ErrNotExist):
			problems = errors.Join(problems, err)
		}
	}
	return keys, problems
}

func ownKey(file string, generation int32) (translate.OwnKey, error) {
	if _, err := os.Stat(file); err != nil {
		return translate.OwnKey{}, err
	}
	public, err := daemon.PublicKey(file)
	return translate.OwnKey{File: file, Public: public, Generation: generation}, err
}

func (f *follower) ownKeys() []translate.OwnKey {
	if keys := f.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

// loadKeys reads the keys again, and logs a problem once. If none can be read, the previous
// keys stay: a mount that is missing for a moment does not end links.
func (f *follower) loadKeys() {
	keys, err := f.options.readKeys()
	if len(keys) > 0 && keys[0].Generation > 0 || len(f.ownKeys()) == 0 {
		f.keys.Store(&keys)
	}
	problem := ""
	switch {
	case err != nil:
		problem = err.Error()
	case len(keys) == 0 || keys[0].Generation == 0:
		problem = "no key in " + f.options.KeyDir
	}
	if problem != "" && problem != f.keyProblem {
		f.log.Warn("cannot read all private keys of the gateway; check that Strait's controller created their Secret", "problem", problem)
	}
	f.keyProblem = problem
}
