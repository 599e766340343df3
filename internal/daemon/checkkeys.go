package daemon

import (
	"errors"
	"fmt"
	"os"

	"strait.dev/strait/config"
)

// CheckKeys reads every key file of a configuration, which must be valid. The error has a
// line for each file that cannot be used, and otherwise is that of a start of the gateway
// with these keys. Warnings are for key files that other users of the machine can read.
func CheckKeys(c *config.Gateway) (warnings []string, err error) {
	w := &c.WireGuard
	checked := map[string]bool{"": true}
	var failed []error
	check := func(field, path, generator string) {
		if checked[path] {
			return
		}
		checked[path] = true
		if _, err := readKey(path, generator); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", field, err))
			return
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %s has mode %04o, with which other users can access the key; run: chmod 600 %s", field, path, info.Mode().Perm(), path))
		}
	}
	check("wireguard.privateKeyFile", w.PrivateKeyFile, genPrivate)
	for i := range w.Peers {
		p := &w.Peers[i]
		check(fmt.Sprintf("wireguard.peers[%d].privateKeyFile", i), w.OwnKeyFile(p), genPrivate)
		check(fmt.Sprintf("wireguard.peers[%d].presharedKeyFile", i), p.PresharedKeyFile, genPreshared)
	}
	if len(failed) > 0 {
		return warnings, errors.Join(failed...)
	}
	_, err = readKeys(c)
	return warnings, err
}
