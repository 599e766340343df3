package rig

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"strait.dev/strait/internal/plan"
	"strait.dev/strait/node/genl"
)

const (
	wireGuardPort = 51820
	wireGuardMTU  = 1420 // wireguard-go's own default
)

// wireGuard creates a WireGuard device in both gateways' namespaces and connects them.
// program is wireguard-go, or empty for the kernel's; env is added to its environment.
func (r *Rig) wireGuard(t *topology, program string, env []string) (device [2]string, err error) {
	if program != "" {
		if _, err := exec.LookPath(program); err != nil {
			return device, fmt.Errorf("wireguard-go of the peer: %w; build it in a clone with: go build -o bin/wireguard-go golang.zx2c4.com/wireguard, and name it with --wireguard-go", err)
		}
	}
	keys, err := newKeyPairs(2)
	if err != nil {
		return device, err
	}
	for i, s := range t.sites() {
		// wireguard-go's control sockets of all namespaces are in one directory.
		r.devices++
		device[i] = fmt.Sprintf("sw%d-%d", os.Getpid(), r.devices)
		c := genl.WireGuard{
			PrivateKey: keys[i].private, ListenPort: wireGuardPort, PeerKey: keys[1-i].public, Keepalive: 25,
			Endpoint: netip.AddrPortFrom(t.other(s).wan[0], wireGuardPort), AllowedIPs: everything[:],
		}
		if program == "" {
			if err := s.gw.IP("link add " + device[i] + " type wireguard"); err != nil {
				return device, err
			}
			if err := s.gw.genl(func(k *genl.Conn) error { return k.SetWireGuard(device[i], c) }); err != nil {
				return device, err
			}
		} else {
			dir, err := r.folder(t, s)
			if err != nil {
				return device, err
			}
			if err := t.startGateway(s, dir, append(env, "LOG_LEVEL=error"), program, "-f", device[i]); err != nil {
				return device, err
			}
			if err := configureProgram(device[i], t.processes[i], c); err != nil {
				return device, err
			}
		}
		if err := s.gw.IP(fmt.Sprintf("link set %s mtu %d up", device[i], wireGuardMTU)); err != nil {
			return device, err
		}
	}
	return device, nil
}

// everything is the AllowedIPs of each end: all addresses.
var everything = plan.PrefixesOf("0.0.0.0/0", "::/0")

// configureProgram configures wireguard-go as soon as its control socket exists.
func configureProgram(device string, p *process, c genl.WireGuard) error {
	conn, err := dialWhenReady(filepath.Join("/var/run/wireguard", device+".sock"), p)
	if err != nil {
		return err
	}
	defer conn.Close()
	text := fmt.Sprintf("set=1\nprivate_key=%x\nlisten_port=%d\npublic_key=%x\nendpoint=%s\npersistent_keepalive_interval=%d\n",
		c.PrivateKey, c.ListenPort, c.PeerKey, c.Endpoint, c.Keepalive)
	for _, prefix := range c.AllowedIPs {
		text += fmt.Sprintf("allowed_ip=%s\n", prefix)
	}
	if _, err := io.WriteString(conn, text+"\n"); err != nil {
		return fmt.Errorf("configure wireguard-go: %w", err)
	}
	response, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && response != "errno=0\n" {
		err = fmt.Errorf("its answer is %q", response)
	}
	if err != nil {
		return fmt.Errorf("configure wireguard-go: %w", err)
	}
	return nil
}

// dialWhenReady connects to the control socket of a process as soon as the process listens.
func dialWhenReady(socket string, p *process) (net.Conn, error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn, nil
		}
		if err := p.running(); err != nil {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("wireguard-go does not listen on its control socket: %w; its output:\n%s", err, tail(p.log))
		}
	}
}
