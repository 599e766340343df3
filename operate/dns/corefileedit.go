package dns

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"strait.dev/strait/k8s/services"
)

// Zone is the zone of imported Services.
const Zone = services.Zone

// Names of a Corefile.
const (
	pluginName   = "kubernetes"
	multicluster = "multicluster"
	cacheName    = "cache"
	disable      = "disable" // of cache: what is not cached, and in which zones
)

// property is the line that makes the plugin kubernetes serve the zone.
const property = multicluster + " " + Zone

// addedComment is the line above a server block that is added.
const addedComment = "# Added by strait dns configure: names of Services that other clusters export.\n"

// serverBlockText is a server block for the zone alone, on a port, and at addresses if any are
// given: CoreDNS asks no server block without them at an address that another one binds.
func serverBlockText(port string, at ...string) string {
	bind := ""
	if len(at) > 0 {
		bind = "    " + bindPlugin + " " + strings.Join(at, " ") + "\n"
	}
	return addedComment +
		Zone + ":" + port + " {\n" +
		"    errors\n" + bind +
		"    cache 30\n" +
		"    " + pluginName + " " + Zone + " {\n" +
		"        " + property + "\n" +
		"    }\n" +
		"    loadbalance\n" +
		"}\n"
}

// defaultPort is the port of a server block without one.
const defaultPort = "53"

// Configure returns a Corefile with which CoreDNS serves the zone as well. Where a server
// block for all names has the plugin kubernetes, that plugin serves it, and the zone is not
// cached where the cluster's own zone is not; otherwise a server block is appended. The rest
// of the text is kept byte for byte, a text that is configured already as a whole. Remove
// reverts it. The error of a text that cannot be changed safely says what to do.
func Configure(text string) (string, error) {
	c, err := parse(text)
	if err != nil {
		return "", err
	}
	if c.served() {
		return text, nil
	}
	if err := c.conflict(); err != nil {
		return "", err
	}
	edits, err := c.additions(text)
	if err != nil {
		return "", err
	}
	if len(edits) == 0 {
		block, err := c.ownServerBlock()
		if err != nil {
			return "", err
		}
		edits = []edit{{at: len(text), insert: "\n" + block}}
	}
	configured := apply(text, edits)
	// The edits must have the intended effect, and be revertible, on any text.
	if reverted, err := Remove(configured); err != nil || reverted != text || !Served(configured) {
		return "", fmt.Errorf("the format of plugin %s is not supported; add the zone %s to its zones and the line %q to its block", pluginName, Zone, property)
	}
	return configured, nil
}

// Remove returns a Corefile without what Configure added. A text that was not configured is
// returned unchanged.
func Remove(text string) (string, error) {
	c, err := parse(text)
	if err != nil {
		return "", err
	}
	var edits []edit
	for _, b := range c.blocks {
		serves := false
		for _, d := range b.kubernetes() {
			if !d.serves() {
				continue
			}
			removals, err := b.removals(text, d)
			if err != nil {
				return "", err
			}
			edits, serves = append(edits, removals...), true
		}
		if !serves {
			continue
		}
		for _, line := range b.uncached() {
			if i := zoneIndex(line); i >= 0 {
				edits = append(edits, edit{at: line[i-1].end, cut: line[i].end - line[i-1].end})
			}
		}
	}
	return apply(text, edits), nil
}

// Served reports whether CoreDNS serves the zone with a Corefile, without its imports.
func Served(text string) bool {
	c, err := parse(text)
	return err == nil && c.served()
}

func (c *corefile) served() bool {
	return slices.ContainsFunc(c.blocks, func(b serverBlock) bool {
		return b.covers() && slices.ContainsFunc(b.kubernetes(), (*directive).serves)
	})
}

// conflict returns an error if another part of the Corefile serves the zone.
func (c *corefile) conflict() error {
	for _, b := range c.blocks {
		for _, key := range b.keys {
			if of, _ := address(key.text); of != "" && (within(Zone, of) || within(of, Zone)) {
				return fmt.Errorf("line %d: the server block of %s answers for names in %s, maybe for another product; remove it", key.line, key.text, Zone)
			}
		}
		for _, d := range b.kubernetes() {
			for _, argument := range d.arguments {
				if of, _ := address(argument.text); of != "" && (within(Zone, of) || within(of, Zone)) {
					return fmt.Errorf("line %d: the plugin %s serves %s without %q; remove that zone from it", argument.line, pluginName, argument.text, property)
				}
			}
		}
	}
	return nil
}

// additions returns the edits of all plugins that can serve the zone.
func (c *corefile) additions(text string) (edits []edit, err error) {
	for _, b := range c.blocks {
		if !b.covers() {
			continue
		}
		for _, d := range b.kubernetes() {
			more, err := d.additions(text)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", d.name.line, err)
			}
			edits = append(edits, more...)
		}
		for _, line := range b.uncached() {
			edits = append(edits, edit{at: line[len(line)-1].end, insert: " " + Zone})
		}
	}
	return edits, nil
}

// ownServerBlock returns a server block for the zone alone, at the port and the addresses of
// the first one with the plugin kubernetes.
func (c *corefile) ownServerBlock() (string, error) {
	i := slices.IndexFunc(c.blocks, func(b serverBlock) bool { return len(b.kubernetes()) > 0 })
	if i < 0 {
		return "", fmt.Errorf("no server block has the plugin %s; if it is imported, add the zone %s to its zones and the line %q to its block", pluginName, Zone, property)
	}
	b := c.blocks[i]
	var at []string
	for _, d := range b.named(bindPlugin) {
		if d.open != nil || d.odd {
			return "", fmt.Errorf("line %d: the format of plugin %s is not supported; add a server block for %s with it", d.name.line, bindPlugin, Zone)
		}
		for _, argument := range d.arguments {
			at = append(at, argument.text)
		}
	}
	_, port := address(b.keys[0].text)
	return serverBlockText(port, at...), nil
}

// named returns the plugins of that name in a server block.
func (b serverBlock) named(plugin string) (found []*directive) {
	for _, d := range b.plugins {
		if d.name.text == plugin {
			found = append(found, d)
		}
	}
	return found
}

// kubernetes returns the plugins kubernetes of a server block.
func (b serverBlock) kubernetes() []*directive { return b.named(pluginName) }

// uncached returns the lines of the plugin cache that exempt the cluster's own zone, as in
// the Corefile of kubeadm: the plugin kubernetes answers from memory, and what is cached may
// be out of date.
func (b serverBlock) uncached() (lines [][]token) {
	var own []string
	for _, d := range b.kubernetes() {
		for _, argument := range d.arguments {
			if of, _ := address(argument.text); of != Zone {
				own = append(own, of)
			}
		}
	}
	for _, d := range b.named(cacheName) {
		if d.odd {
			continue
		}
		for _, line := range d.properties {
			if line[0].text == disable && slices.ContainsFunc(line[1:], func(t token) bool {
				of, _ := address(t.text)
				return slices.Contains(own, of)
			}) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// covers reports whether queries for the zone reach the server block, unless there is a more
// specific one.
func (b serverBlock) covers() bool {
	return slices.ContainsFunc(b.keys, func(key token) bool {
		of, _ := address(key.text)
		return within(Zone, of)
	})
}

// serves reports whether a plugin kubernetes serves the zone.
func (d *directive) serves() bool {
	return !d.odd && zoneIndex(d.arguments) >= 0 && d.multicluster() != nil
}

// zoneIndex returns the index of the zone, -1 if there is none.
func zoneIndex(words []token) int {
	return slices.IndexFunc(words, func(t token) bool {
		of, _ := address(t.text)
		return of == Zone
	})
}

// multicluster returns the line that is property, nil if there is none.
func (d *directive) multicluster() []token {
	for _, line := range d.properties {
		if len(line) == 2 && line[0].text == multicluster {
			if of, _ := address(line[1].text); of == Zone {
				return line
			}
		}
	}
	return nil
}

// errOdd is the error of a plugin whose format is not the common one.
var errOdd = errors.New("the format of plugin " + pluginName + ` is not supported; write "{" at the end of its first line, each property and "}" on lines of their own, and no empty block`)

// additions returns the edits that make a plugin kubernetes serve the zone.
func (d *directive) additions(text string) ([]edit, error) {
	if d.odd || d.open != nil && len(d.properties) == 0 {
		return nil, errOdd
	}
	if len(d.arguments) == 0 {
		return nil, fmt.Errorf("the plugin %s names no zones; name those that it serves, such as cluster.local", pluginName)
	}
	zone := edit{at: d.arguments[len(d.arguments)-1].end, insert: " " + Zone}
	if d.open == nil {
		zone.insert += ownBlock(indentation(text, d.name.start))
		return []edit{zone}, nil
	}
	first := d.properties[0][0].start
	return []edit{zone, {at: first, insert: property + "\n" + indentation(text, first)}}, nil
}

// ownBlock returns the block that is added to a plugin without one.
func ownBlock(indent string) string {
	return " {\n" + indent + "    " + property + "\n" + indent + "}"
}

// removals returns the edits that remove what serves the zone: the plugin's part of it, or
// the whole server block if Configure added that.
func (b serverBlock) removals(text string, d *directive) ([]edit, error) {
	_, port := address(b.keys[0].text)
	var at []string
	if len(b.named(bindPlugin)) > 0 {
		at = b.binds()
	}
	if own := "\n" + serverBlockText(port, at...); strings.Contains(text, own) {
		if start := strings.Index(text, own); start < d.name.start && d.name.start < start+len(own) {
			return []edit{{at: start, cut: len(own)}}, nil
		}
	}
	if len(d.arguments) == 1 {
		return nil, fmt.Errorf("line %d: the server block of %s is not as strait dns configure wrote it; remove it by hand", b.keys[0].line, b.keys[0].text)
	}
	zone := d.arguments[zoneIndex(d.arguments)]
	start := zone.start - len(text[:zone.start]) + len(strings.TrimRight(text[:zone.start], " \t"))
	if own := ownBlock(indentation(text, d.name.start)); strings.HasPrefix(text[zone.end:], own) {
		return []edit{{at: start, cut: zone.end + len(own) - start}}, nil
	}
	line := d.multicluster()
	from := line[0].start - len(indentation(text, line[0].start))
	to := line[1].end + lineEnd(text[line[1].end:]) + 1
	return []edit{{at: start, cut: zone.end - start}, {at: from, cut: min(to, len(text)) - from}}, nil
}

// indentation returns the white space with which the line of an offset begins.
func indentation(text string, at int) string {
	line := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

type edit struct {
	at, cut int
	insert  string
}

// apply returns a text with edits, which do not overlap.
func apply(text string, edits []edit) string {
	slices.SortFunc(edits, func(a, b edit) int { return b.at - a.at })
	for _, e := range edits {
		text = text[:e.at] + e.insert + text[e.at+e.cut:]
	}
	return text
}

// address returns the zone, in lower case and without the last dot, and the port of an
// address in a Corefile, like dns://example.org.:53.
func address(text string) (zone, port string) {
	if _, rest, found := strings.Cut(text, "://"); found {
		text = rest
	}
	port = defaultPort
	if i := strings.LastIndexByte(text, ':'); i >= 0 && i+1 < len(text) && strings.Trim(text[i+1:], "0123456789") == "" {
		text, port = text[:i], text[i+1:]
	}
	return strings.ToLower(strings.TrimSuffix(text, ".")), port
}

// within reports whether a zone is another one or below it. The zone of all names is "".
func within(zone, other string) bool {
	return other == "" || zone == other || strings.HasSuffix(zone, "."+other)
}
