package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	wireGuardPort = 51820
	wireGuardMTU  = 1420 // wireguard-go's own default
)

// wireGuard makes a WireGuard device in both gateways' namespaces and joins them.
// program is wireguard-go, or empty for the kernel's; env is added to its environment.
func (r *Rig) wireGuard(t *topology, program string, env []string) (device [2]string, processes []*process, err error) {
	if program != "" {
		if _, err := exec.LookPath(program); err != nil {
			return device, nil, fmt.Errorf("wireguard-go of the peer: %w; build it in a clone with: go build -o bin/wireguard-go golang.zx2c4.com/wireguard, and name it with --wireguard-go", err)
		}
	}
	keys, err := newKeyPairs()
	if err != nil {
		return device, nil, err
	}
	for i, s := range t.sites() {
		// wireguard-go's control sockets are in one folder for all namespaces.
		r.devices++
		device[i] = fmt.Sprintf("sw%d-%d", os.Getpid(), r.devices)
		dir, err := r.folder(t, s)
		if err != nil {
			return device, processes, err
		}
		if program == "" {
			if err := s.gw.ip("link add " + device[i] + " type wireguard"); err != nil {
				return device, processes, err
			}
		} else {
			p, err := s.gw.start(t.gateways, dir, append(env, "LOG_LEVEL=error"), nil, program, "-f", device[i])
			if err != nil {
				return device, processes, err
			}
			processes = append(processes, p)
			if err := awaitFile(filepath.Join("/var/run/wireguard", device[i]+".sock"), p); err != nil {
				return device, processes, err
			}
		}
		file := filepath.Join(dir, "wireguard.conf")
		text := fmt.Sprintf(`[Interface]
PrivateKey = %s
ListenPort = %d
[Peer]
PublicKey = %s
AllowedIPs = 0.0.0.0/0, ::/0
Endpoint = %s:%[2]d
PersistentKeepalive = 25
`, keys[i].private, wireGuardPort, keys[1-i].public, t.other(s).wan[0])
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return device, processes, err
		}
		if err := s.gw.run("", "wg", "setconf", device[i], file); err != nil {
			return device, processes, err
		}
		if err := s.gw.ip(fmt.Sprintf("link set %s mtu %d up", device[i], wireGuardMTU)); err != nil {
			return device, processes, err
		}
	}
	return device, processes, nil
}

// awaitFile waits until a process has made a file.
func awaitFile(name string, p *process) error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return nil
		}
		if err := p.running(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not appear; the program said:\n%s", name, tail(p.log))
		}
	}
}
