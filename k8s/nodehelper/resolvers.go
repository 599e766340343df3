package nodehelper

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// resolverFile lists the resolvers of the node: the pod of the helper is in the host network, and
// its DNS policy is that of the node.
const resolverFile = "/etc/resolv.conf"

const maxResolverFile = 64 << 10 // bytes that are read

// resolvers returns the addresses of the node's resolvers. What cannot be read or parsed is
// skipped.
func resolvers() []netip.Addr {
	file, err := os.Open(resolverFile)
	if err != nil {
		return nil
	}
	defer file.Close()
	return parseResolvers(io.LimitReader(file, maxResolverFile))
}

func parseResolvers(file io.Reader) (all []netip.Addr) {
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil && !slices.Contains(all, a.WithZone("")) {
			all = append(all, a.WithZone("").Unmap())
		}
	}
	return all
}
