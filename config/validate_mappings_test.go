package config

import (
	"strings"
	"testing"
)

// replace is the valid document with one text for another.
func replace(t *testing.T, old, new string) string {
	t.Helper()
	document := valid(t)
	if !strings.Contains(document, old) {
		t.Fatalf("the document does not contain %q", old)
	}
	return strings.Replace(document, old, new, 1)
}

func TestT7_ProblemsOfMappingsAreNamed(t *testing.T) {
	t.Parallel()
	testMalformed(t, []malformed{
		{
			"outside of the external prefixes", "external: 10.70.1.9", "external: 10.75.1.9",
			"line 55: mappings[0].external: 10.75.1.9 is in none of local.externalPrefixes; choose one from local.externalPrefixes, or add its prefix there",
		},
		{
			"a node's external address", "external: 10.70.1.9", "external: 10.70.0.12",
			"line 55: mappings[0].external: 10.70.0.12 is already in overlay.nodes[1].externalAddresses[0]; give each an address of its own",
		},
		{
			"two targets for one address", "  target: 192.0.2.77", "  target: 192.0.2.77\n- {external: 10.70.1.9, target: 192.0.2.78}",
			"line 57: mappings[1].external: 10.70.1.9 is already in mappings[0].external; give each an address of its own",
		},
		{
			"the gateway's own machine", "target: 192.0.2.77", "target: 127.0.0.1",
			"line 56: mappings[0].target: 127.0.0.1 is loopback; choose ordinary unicast addresses",
		},
		{
			"a cloud's metadata service", "target: 192.0.2.77", "target: 169.254.169.254",
			"line 56: mappings[0].target: 169.254.169.254 is link-local; choose ordinary unicast addresses",
		},
		{
			"the gateway", "target: 192.0.2.77", "target: 10.80.0.1",
			"line 56: mappings[0].target: 10.80.0.1 is that of overlay.addresses[0]; give an address outside of Strait's own",
		},
		{
			"no target", "  target: 192.0.2.77", "",
			"line 55: mappings[0].target: missing; write an address like 10.80.0.11 or fd00:80::11",
		},
	})
}
