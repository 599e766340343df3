package config

import "testing"

func TestProblemsOfTheDocumentAreNamed(t *testing.T) {
	t.Parallel()
	testMalformed(t, []malformed{
		{
			"another version", "strait.dev/v1alpha1", "strait.dev/v1",
			`line 1: apiVersion: "strait.dev/v1" is not served; use strait.dev/v1alpha1`,
		},
		{
			"another kind", "kind: GatewayConfig", "kind: Gateway",
			`line 2: kind: "Gateway" is not served; use GatewayConfig`,
		},
		{
			"no version", "apiVersion: strait.dev/v1alpha1", "#",
			`line 2: apiVersion: "" is not served; use strait.dev/v1alpha1`,
		},
		{
			"no cluster", "cluster: a", "#",
			"line 1: cluster: missing; give the cluster its ID",
		},
		{
			"a cluster ID that is no label", "cluster: a", "cluster: A_b",
			`line 3: cluster: "A_b" is not an RFC 1123 label; use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit`,
		},
		{
			"a cluster ID of 64 letters", "cluster: a", "cluster: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			`line 3: cluster: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" is not an RFC 1123 label; use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit`,
		},
		{
			"no remote cluster", "  cluster: b", "  #",
			"line 43: remote.cluster: missing; give the cluster its ID",
		},
		{
			"a remote cluster that is this one", "  cluster: b", "  cluster: a",
			"line 42: remote.cluster: is this cluster's own ID; give each cluster an ID of its own",
		},
		{
			"an MTU below that of IPv6", "mtu: 0", "mtu: 1279",
			"line 9: overlay.mtu: 1279 is not an MTU that every packet can rely on; use 0 to derive it from the interfaces, or 1280 to 65535",
		},
		{
			"an MTU above that of IP", "mtu: 0", "mtu: 65536",
			"line 9: overlay.mtu: 65536 is not an MTU that every packet can rely on; use 0 to derive it from the interfaces, or 1280 to 65535",
		},
		{
			"an MSS too low", "mssClamp: 1300", "mssClamp: 535",
			"line 47: mssClamp: 535 is not an MSS; use auto, off or a number from 536 to 65495",
		},
		{
			"an MSS too high", "mssClamp: 1300", "mssClamp: 65496",
			"line 47: mssClamp: 65496 is not an MSS; use auto, off or a number from 536 to 65495",
		},
	})
}
