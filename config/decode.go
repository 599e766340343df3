package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder decodes YAML nodes into Go values and collects the problems.
type decoder struct {
	problems Problems
	fields   map[reflect.Type][]field
}

// value is a YAML node and its place.
type value struct {
	node  *yaml.Node
	place *place
}

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
	name    string
	index   int  // in its struct
	address bool // the tag accept:"address": an address counts as a prefix of full length
}

// fieldsOf returns the fields of an object: those with a tag for YAML.
func (d *decoder) fieldsOf(t reflect.Type) []field {
	if known := d.fields[t]; known != nil {
		return known
	}
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" {
			all = append(all, field{name, i, f.Tag.Get("accept") == "address"})
		}
	}
	d.fields[t] = all
	return all
}

// read decodes a value into a variable. Null counts as absent and leaves the variable unchanged. of is the field that is, or
// contains, the variable.
func (d *decoder) read(v value, into reflect.Value, of field) {
	switch variable := into.Addr().Interface().(type) {
	case *netip.Addr:
		parsed(d, v, variable, netip.ParseAddr, "an IP address", "write one like 10.80.0.11 or fd00:80::11")
	case *netip.AddrPort:
		parsed(d, v, variable, netip.ParseAddrPort, "an address and port", "write one like 10.71.2.9:8080 or [fd00:71::9]:8080")
	case *netip.Prefix:
		parse := netip.ParsePrefix
		if of.address {
			parse = prefixOrAddress
		}
		parsed(d, v, variable, parse, "a prefix", "write one like 10.0.0.0/16 or fd00:10::/48")
	case *ListenAddress:
		parsed(d, v, variable, parseListen, "an address to listen on", `write ":6091" for all addresses or "192.0.2.10:6091" for one`)
	case *time.Duration:
		parsed(d, v, variable, time.ParseDuration, "a duration", "write one like 25s, with its unit")
	case *MSSClamp:
		parsed(d, v, variable, parseClamp, "an MSS", "use auto, off or "+clampRange)
	case *Key:
		d.key(v, variable)
	case *int:
		number(d, v, variable, of)
	case *uint16:
		number(d, v, variable, of)
	case *uint32:
		number(d, v, variable, of)
	default:
		switch into.Kind() {
		case reflect.Struct:
			d.object(v, into)
		case reflect.Slice:
			d.list(v, into, of)
		default:
			d.text(v, into)
		}
	}
}

// object decodes a mapping with the fields of a struct; other fields are problems.
func (d *decoder) object(v value, into reflect.Value) {
	switch o := into.Addr().Interface().(type) {
	case *Gateway:
		o.Overlay.Listen = ListenAddress{Port: DefaultOverlayPort}
		o.WireGuard.ListenPort = DefaultWireGuardPort
	case *Node:
		o.Encapsulation = Geneve
	case *RemotePrefix:
		defer func() {
			if !o.SeenAs.IsValid() {
				o.SeenAs = o.CIDR
			}
		}()
	}
	if !d.is(yaml.MappingNode, v) {
		return
	}
	fields := d.fieldsOf(into.Type())
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
		if at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value }); at >= 0 {
			d.read(value{content, named.place}, into.Field(fields[at].index), fields[at])
			continue
		}
		d.problem(named, "unknown field", suggest(fields, key.Value))
	}
}

func (d *decoder) list(v value, into reflect.Value, of field) {
	if !d.is(yaml.SequenceNode, v) || len(v.node.Content) == 0 {
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(v.node.Content), len(v.node.Content)))
	for i, item := range v.node.Content {
		d.read(value{item, v.place.item(i)}, into.Index(i), of)
	}
}

// text decodes a string. Numbers and booleans need quotes: 1.10 and "1.10" differ.
func (d *decoder) text(v value, into reflect.Value) {
	switch {
	case !d.is(yaml.ScalarNode, v):
	case v.node.ShortTag() != "!!str":
		d.problem(v, quote(v.node.Value)+" is not text", "put it in quotes")
	default:
		into.SetString(v.node.Value)
	}
}

// parsed decodes a single value of a type with a name.
func parsed[T any](d *decoder, v value, into *T, parse func(string) (T, error), name, remedy string) {
	if !d.is(yaml.ScalarNode, v) {
		return
	}
	result, err := parse(v.node.Value)
	if err != nil {
		d.problem(v, quote(v.node.Value)+" is not "+name, remedy)
		return
	}
	*into = result
}

// numbers are the valid numbers of each field, as remedies name them.
var numbers = map[string]string{
	"mtu": mtuRange, "vni": vniRange, "listenPort": portRange + ", or 0 for any free port",
	"ordinal": ordinalRange, "replicas": replicasRange, "flows": flowRange, "flowsPerSource": flowRange,
}

// number decodes a decimal whole number that fits T.
func number[T int | uint16 | uint32](d *decoder, v value, into *T, of field) {
	if !d.is(yaml.ScalarNode, v) {
		return
	}
	text, want := v.node.Value, "use "+numbers[of.name]
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || strconv.FormatInt(n, 10) != text:
		d.problem(v, quote(text)+" is not a decimal whole number", want)
	case int64(T(n)) != n:
		d.problem(v, text+" is out of range", want)
	default:
		*into = T(n)
	}
}

// key decodes a public key. The text is never repeated in a problem, because it may be a secret.
func (d *decoder) key(v value, into *Key) {
	if !d.is(yaml.ScalarNode, v) {
		return
	}
	k, err := ParseKey(v.node.Value)
	if err != nil {
		d.problem(v, err.Error(), "give the peer's public key as `wg pubkey` prints it, 44 characters")
		return
	}
	*into = k
}

func prefixOrAddress(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// parseListen parses the format of ListenAddress.String.
func parseListen(text string) (l ListenAddress, err error) {
	if text == "" {
		return l, nil
	}
	host, port, err := splitHostPort(text)
	if err == nil && host != "" {
		l.Addr, err = netip.ParseAddr(host)
	}
	if err == nil && port == 0 {
		err = errHostPort
	}
	l.Port = port
	return l, err
}

// parseClamp parses the format of MSSClamp.String.
func parseClamp(text string) (MSSClamp, error) {
	switch text {
	case "auto":
		return MSSClamp{}, nil
	case "off":
		return MSSClamp{Off: true}, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && n == 0 {
		err = strconv.ErrRange
	}
	return MSSClamp{Value: uint16(n)}, err
}

// Number ranges, as remedies name them.
const (
	vniRange      = "1 to 16777215"
	portRange     = "1 to 65535"
	clampRange    = "a number from 536 to 65495"
	flowRange     = "0 for the default, or a number from 1 to 4194304"
	ordinalRange  = "a number from 0 to 15"
	replicasRange = "0 for 1, or a number from 1 to 16"
	mtuRange      = "0 to derive it from the interfaces, or a number of bytes from 576 to 65535"
)

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
