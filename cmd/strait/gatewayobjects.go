//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/gateway"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/translate"
)

// vxlanPort is the UDP port of every gateway in Kubernetes, where each has its own pod. The
// ports of Geneve and WireGuard are the defaults of package config.
const vxlanPort = 6092

// gatewayObjects holds the flags of a gateway in Kubernetes.
type gatewayObjects struct {
	peering, peeringUID, namespace, name, podUID, podIPs, keyDir, inviteKeyFile, presharedKeyDir, cacheDir, kubeconfig string
	withoutNodes                                                                                                       bool
}

// withoutNodesFlag is the only flag of gatewayObjects that is not a text.
const withoutNodesFlag = "without-nodes"

// objectFlag is a flag of gatewayObjects.
type objectFlag struct {
	into     *string
	name     string
	env      string // environment variable with the default; empty: none
	required bool
	usage    string
}

func (g *gatewayObjects) flags() []objectFlag {
	return []objectFlag{
		{&g.peering, "peering", "STRAIT_PEERING", true, "the gateway's Peering"},
		{&g.peeringUID, "peering-uid", "STRAIT_PEERING_UID", false, "UID of the Peering; without it, any Peering of that name is followed"},
		{&g.name, "name", "POD_NAME", true, "the gateway's name, which is that of its pod"},
		{&g.namespace, "namespace", "POD_NAMESPACE", true, "namespace of the gateway's pod and of its GatewayReport"},
		{&g.podUID, "pod-uid", "POD_UID", false, "UID of the gateway's pod, with which its GatewayReport is deleted"},
		{&g.podIPs, "pod-ips", "POD_IPS", true, "addresses of the gateway's pod, separated by commas"},
		{&g.keyDir, "key-dir", "", true, "directory with the gateway's private keys in base64, one file for each generation, like 1.key"},
		{&g.inviteKeyFile, "invite-key-file", "", false, "file with the temporary private key of an invite"},
		{&g.presharedKeyDir, "preshared-key-dir", "", false, "directory with preshared keys, each in a file with the name of its Secret"},
		{&g.cacheDir, "cache-dir", "", true, "directory for a copy of the configuration in force, for starts while the API server is unreachable"},
		{&g.kubeconfig, "kubeconfig", "", false, "kubeconfig file of the cluster (default: the pod's service account)"},
	}
}

func (g *gatewayObjects) register(c *cobra.Command) {
	for _, f := range g.flags() {
		if f.env != "" {
			f.usage += " (or $" + f.env + ")"
		}
		c.Flags().StringVar(f.into, f.name, "", f.usage)
	}
	c.Flags().BoolVar(&g.withoutNodes, withoutNodesFlag, false, "the cluster has no node helpers: carry connections to the ports of imported Services, and from the remote cluster to pods")
}

// given returns the name of a given flag, empty if there is none.
func (g *gatewayObjects) given(c *cobra.Command) string {
	for _, f := range g.flags() {
		if c.Flags().Changed(f.name) {
			return f.name
		}
	}
	if c.Flags().Changed(withoutNodesFlag) {
		return withoutNodesFlag
	}
	return ""
}

// complete sets missing flags from the environment, and returns an error for the first that
// stays missing.
func (g *gatewayObjects) complete() error {
	for _, f := range g.flags() {
		if *f.into == "" && f.env != "" {
			*f.into = os.Getenv(f.env)
		}
		if *f.into != "" || !f.required {
			continue
		}
		remedy := "give it"
		if f.env != "" {
			remedy = "give it, or set " + f.env
		}
		return gatewayUsage(fmt.Errorf("--%s is missing: %s; %s, or name a configuration file with --config", f.name, f.usage, remedy))
	}
	return nil
}

// options returns the options of the gateway that the flags describe.
func (g *gatewayObjects) options(d daemon.Options) (o gateway.Options, err error) {
	if err := g.complete(); err != nil {
		return o, err
	}
	o = gateway.Options{
		Peering: g.peering, PeeringUID: types.UID(g.peeringUID), Namespace: g.namespace, PodUID: types.UID(g.podUID),
		KeyDir: g.keyDir, InviteKeyFile: g.inviteKeyFile, PresharedKeyDir: g.presharedKeyDir, CacheDir: g.cacheDir,
		Settings: translate.Settings{
			Name:          g.name,
			Geneve:        config.ListenAddress{Port: config.DefaultOverlayPort},
			VXLAN:         config.ListenAddress{Port: vxlanPort},
			Observability: config.ListenAddress{Port: install.HTTPPort},
			WireGuardPort: config.DefaultWireGuardPort,
			WithoutNodes:  g.withoutNodes,
		},
		Health: config.ListenAddress{Port: install.HealthPort},
		Daemon: d,
	}
	for text := range strings.SplitSeq(g.podIPs, ",") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return o, gatewayUsage(fmt.Errorf("--pod-ips: %q is not an IP address; write addresses like 10.0.1.9,fd00:10::9", text))
		}
		o.PodAddresses = append(o.PodAddresses, a)
	}
	if info, err := os.Stat(g.cacheDir); err != nil || !info.IsDir() {
		return o, gatewayUsage(fmt.Errorf("--cache-dir %s: is not a directory; create it, or mount a volume there", g.cacheDir))
	}
	if o.Daemon.Socket == "" {
		o.Daemon.Socket = filepath.Join(g.cacheDir, install.SocketName)
	}
	return o, nil
}

func (g *gatewayObjects) run(ctx context.Context, d daemon.Options) error {
	o, err := g.options(d)
	if err != nil {
		return err
	}
	klog.SetSlogLogger(d.Log) // the log of client-go
	if o.API, err = client.Config(g.kubeconfig); err != nil {
		return err
	}
	return gateway.Run(ctx, o)
}
