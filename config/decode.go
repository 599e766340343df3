package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder decodes YAML nodes into Go values and collects the problems.
type decoder struct{ problems Problems }

// value is a YAML node and its place.
type value struct {
	node  *yaml.Node
	place *place
}

// reader decodes a value into one variable. Null counts as absent and leaves the variable unchanged.
type reader func(value)

func (d *decoder) problem(v value, text, remedy string) {
	d.problems = append(d.problems, Problem{v.node.Line, v.node.Column, v.place.String(), text, remedy})
}

// is reports whether a value is present and of that kind.
func (d *decoder) is(kind yaml.Kind, v value) bool {
	switch {
	case v.node.Kind == yaml.AliasNode:
		d.problem(v, "is an alias, which is not supported", "write the value out")
	case v.node.Style&yaml.TaggedStyle != 0:
		d.problem(v, "has the tag "+quote(v.node.Tag)+", which is not supported", "remove the tag")
	case v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null":
		return false
	case v.node.Kind != kind:
		d.problem(v, "is "+kindNames[v.node.Kind]+", not "+kindNames[kind], "write "+kindNames[kind])
	default:
		return true
	}
	return false
}

var kindNames = map[yaml.Kind]string{
	yaml.ScalarNode:   "a single value",
	yaml.SequenceNode: "a list",
	yaml.MappingNode:  "a mapping of fields",
}

// field is a field of an object.
type field struct {
	name string
	read reader
}

// object decodes a mapping with these fields; other fields are problems.
func (d *decoder) object(fields ...field) reader {
	return func(v value) {
		if !d.is(yaml.MappingNode, v) {
			return
		}
		lines := make(map[string]int, len(fields))
		for i := 0; i+1 < len(v.node.Content); i += 2 {
			key, content := v.node.Content[i], v.node.Content[i+1]
			named := value{key, v.place.field(printable(key.Value))}
			if key.Kind != yaml.ScalarNode {
				d.problem(value{key, v.place}, "has a field without a name", "begin each field with one of: "+names(fields))
				continue
			}
			if line, twice := lines[key.Value]; twice {
				d.problem(named, fmt.Sprintf("given twice, first on line %d", line), "keep one of the two")
				continue
			}
			lines[key.Value] = key.Line
			if f := find(fields, key.Value); f != nil {
				f.read(value{content, named.place})
				continue
			}
			d.problem(named, "unknown field", suggest(fields, key.Value))
		}
	}
}

func find(fields []field, name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// list decodes a sequence, each item with the reader that read returns for it.
func list[T any](d *decoder, into *[]T, read func(*T) reader) reader {
	return func(v value) {
		if !d.is(yaml.SequenceNode, v) || len(v.node.Content) == 0 {
			return
		}
		*into = make([]T, len(v.node.Content))
		for i, item := range v.node.Content {
			read(&(*into)[i])(value{item, v.place.item(i)})
		}
	}
}

// scalar decodes a single value. parse returns what is wrong with the text, and a remedy.
func (d *decoder) scalar(parse func(text string) (fault, remedy string)) reader {
	return func(v value) {
		if !d.is(yaml.ScalarNode, v) {
			return
		}
		if fault, remedy := parse(v.node.Value); fault != "" {
			d.problem(v, fault, remedy)
		}
	}
}

// text decodes a string. Numbers and booleans need quotes: 1.10 and "1.10" differ.
func (d *decoder) text(into *string) reader {
	return func(v value) {
		if !d.is(yaml.ScalarNode, v) {
			return
		}
		if v.node.ShortTag() != "!!str" {
			d.problem(v, quote(v.node.Value)+" is not text", "put it in quotes")
			return
		}
		*into = v.node.Value
	}
}

// number decodes a decimal whole number that fits T; want describes the valid ones.
func number[T int | uint16 | uint32](d *decoder, into *T, want string) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || strconv.FormatInt(n, 10) != text:
			return quote(text) + " is not a decimal whole number", "use " + want
		case int64(T(n)) != n:
			return text + " is out of range", "use " + want
		}
		*into = T(n)
		return "", ""
	})
}

func (d *decoder) address(into *netip.Addr) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return quote(text) + " is not an IP address", "write one like 10.80.0.11 or fd00:80::11"
		}
		*into = a
		return "", ""
	})
}

func (d *decoder) addressAndPort(into *netip.AddrPort) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		a, err := netip.ParseAddrPort(text)
		if err != nil {
			return quote(text) + " is not an address and port", "write one like 10.71.2.9:8080 or [fd00:71::9]:8080"
		}
		*into = a
		return "", ""
	})
}

func (d *decoder) prefix(into *netip.Prefix) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return quote(text) + " is not a prefix", "write one like 10.0.0.0/16 or fd00:10::/48"
		}
		*into = p
		return "", ""
	})
}

// prefixOrAddress decodes a prefix; a single address counts as a prefix of full length.
func (d *decoder) prefixOrAddress(into *netip.Prefix) reader {
	whole := d.prefix(into)
	return func(v value) {
		if a, err := netip.ParseAddr(v.node.Value); err == nil && a.Zone() == "" && d.is(yaml.ScalarNode, v) {
			*into = netip.PrefixFrom(a, a.BitLen())
			return
		}
		whole(v)
	}
}

// listen decodes the format of ListenAddress.String.
func (d *decoder) listen(into *ListenAddress) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		if text == "" {
			*into = ListenAddress{}
			return "", ""
		}
		addr := netip.Addr{}
		host, port, err := splitHostPort(text)
		if err == nil && host != "" {
			addr, err = netip.ParseAddr(host)
		}
		if err != nil || port == 0 {
			return quote(text) + " is not an address to listen on", `write ":6091" for all addresses or "192.0.2.10:6091" for one`
		}
		*into = ListenAddress{addr, port}
		return "", ""
	})
}

func (d *decoder) duration(into *time.Duration) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		t, err := time.ParseDuration(text)
		if err != nil {
			return quote(text) + " is not a duration", "write one like 25s, with its unit"
		}
		*into = t
		return "", ""
	})
}

// key decodes a public key. The text is never repeated in a problem, because it may be a secret.
func (d *decoder) key(into *Key) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		k, err := ParseKey(text)
		if err != nil {
			return err.Error(), "give the peer's public key as `wg pubkey` prints it, 44 characters"
		}
		*into = k
		return "", ""
	})
}

func (d *decoder) clamp(into *MSSClamp) reader {
	return d.scalar(func(text string) (fault, remedy string) {
		switch n, err := strconv.ParseUint(text, 10, 16); {
		case text == "auto":
			*into = MSSClamp{}
		case text == "off":
			*into = MSSClamp{Off: true}
		case err == nil && n > 0:
			*into = MSSClamp{Value: uint16(n)}
		default:
			return quote(text) + " is not an MSS", "use auto, off or " + clampRange
		}
		return "", ""
	})
}

// printable returns the name of a field in a form that fits one line.
func printable(name string) string {
	if quoted := quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// quote returns text from a file, quoted and shortened.
func quote(text string) string { return strconv.Quote(shorten(text)) }

// shorten shortens text from a file for an error message.
func shorten(text string) string {
	const room = 64
	if len(text) <= room {
		return text
	}
	return strings.ToValidUTF8(text[:room], "") + "..."
}
