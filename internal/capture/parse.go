package capture

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// maxFilter is the maximum length of a filter in bytes: it is evaluated for every packet.
	maxFilter = 4096
	// maxNesting is the maximum depth of parentheses and negations.
	maxNesting = 64
)

// ParseFilter parses a filter. The language is a subset of that of tcpdump:
//
//	filter = test | filter and filter | filter or filter | not filter | (filter)
//	test   = [ip|ip6|tcp|udp|icmp|icmp6] [[src|dst] [host|net|port|portrange] value]
//	       | less bytes | greater bytes
//
// "and" binds tighter than "or"; &&, || and ! are alternatives for the words. An empty text keeps all packets. Errors
// contain the position and what was expected there.
func ParseFilter(text string) (Filter, error) {
	if len(text) > maxFilter {
		return Filter{}, fmt.Errorf("filter: %d bytes are too many; leave at most %d", len(text), maxFilter)
	}
	p := parser{words: split(text), end: len(text)}
	if len(p.words) == 0 {
		return Filter{}, nil
	}
	root, err := p.alternatives()
	if err == nil && len(p.words) > 0 {
		err = p.expected("and, or, or the end")
	}
	if err != nil {
		return Filter{}, err
	}
	return Filter{root}, nil
}

// word is a token of a filter and its position.
type word struct {
	text string
	at   int // offset in bytes
}

// split splits a text at white space and around operators.
func split(text string) (words []word) {
	for at := 0; at < len(text); {
		size := 1
		switch c := text[at]; {
		case isBlank(c):
			at++
			continue
		case c == '(' || c == ')' || c == '!':
		case strings.HasPrefix(text[at:], "&&"), strings.HasPrefix(text[at:], "||"):
			size = 2
		default:
			for at+size < len(text) && !isBlank(text[at+size]) && !strings.ContainsRune("()!&|", rune(text[at+size])) {
				size++
			}
		}
		words = append(words, word{text[at : at+size], at})
		at += size
	}
	return words
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// parser consumes words from the front.
type parser struct {
	words   []word
	end     int // length of the text, bytes
	nesting int
}

// next returns the next word, empty at the end.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0].text
}

// take consumes the next word if it is one of texts.
func (p *parser) take(texts ...string) bool {
	for _, text := range texts {
		if p.next() == text {
			p.words = p.words[1:]
			return true
		}
	}
	return false
}

// expected returns the error at the next word.
func (p *parser) expected(what string) error {
	if len(p.words) == 0 {
		return fmt.Errorf("filter: it ends after character %d; expected %s", p.end, what)
	}
	return fmt.Errorf("filter: at character %d: %q; expected %s", p.words[0].at+1, p.words[0].text, what)
}

func (p *parser) alternatives() (*node, error) {
	left, err := p.conjunction()
	for err == nil && p.take("or", "||") {
		var right *node
		right, err = p.conjunction()
		left = &node{test: or, left: left, right: right}
	}
	return left, err
}

func (p *parser) conjunction() (*node, error) {
	left, err := p.operand()
	for err == nil && p.take("and", "&&") {
		var right *node
		right, err = p.operand()
		left = &node{test: and, left: left, right: right}
	}
	return left, err
}

func (p *parser) operand() (*node, error) {
	if p.nesting == maxNesting {
		return nil, p.expected(fmt.Sprintf("not more than %d parentheses and negations inside each other", maxNesting))
	}
	p.nesting++
	defer func() { p.nesting-- }()
	switch {
	case p.take("not", "!"):
		inside, err := p.operand()
		return &node{test: not, left: inside}, err
	case p.take("("):
		inside, err := p.alternatives()
		if err == nil && !p.take(")") {
			err = p.expected("and, or, or )")
		}
		return inside, err
	}
	return p.test()
}

const anyTest = "a test: host, net, port, portrange, src, dst, ip, ip6, tcp, udp, icmp, icmp6, less, greater, or an address"

func (p *parser) test() (*node, error) {
	switch {
	case p.take("less"):
		return p.length(less)
	case p.take("greater"):
		return p.length(greater)
	}
	kind, isKind := kinds[p.next()]
	if isKind {
		p.words = p.words[1:]
	}
	n, err := p.ends(isKind)
	if n == nil && err == nil {
		return &kind, nil
	}
	if isKind {
		n = &node{test: and, left: &kind, right: n}
	}
	return n, err
}

// ends parses a test of addresses or ports. If it is optional and missing, the result is nil.
func (p *parser) ends(optional bool) (*node, error) {
	side, sided := either, true
	switch {
	case p.take("src"):
		side = source
	case p.take("dst"):
		side = destination
	default:
		sided = false
	}
	switch {
	case p.take("host"):
		return p.host(side)
	case p.take("net"):
		return p.net(side)
	case p.take("port"):
		return p.port(side)
	case p.take("portrange"):
		return p.portRange(side)
	}
	if n := p.bare(side); n != nil {
		return n, nil
	}
	switch {
	case sided:
		return nil, p.expected("host, net, port, portrange, or an address")
	case optional:
		return nil, nil
	}
	return nil, p.expected(anyTest)
}

// bare parses an address or a prefix without a keyword.
func (p *parser) bare(side side) *node {
	n, err := p.host(side)
	if err != nil {
		if n, err = p.net(side); err != nil {
			return nil
		}
	}
	return n
}

func (p *parser) host(side side) (*node, error) {
	a, err := netip.ParseAddr(p.next())
	if err != nil || a.Zone() != "" {
		return nil, p.expected("an address, as in host 10.71.2.9")
	}
	p.words = p.words[1:]
	a = a.Unmap()
	return &node{test: address, side: side, prefix: netip.PrefixFrom(a, a.BitLen())}, nil
}

func (p *parser) net(side side) (*node, error) {
	prefix, err := netip.ParsePrefix(p.next())
	if err != nil || prefix.Addr().Is4In6() {
		return nil, p.expected("a prefix, as in net 10.71.0.0/16")
	}
	p.words = p.words[1:]
	return &node{test: address, side: side, prefix: prefix.Masked()}, nil
}

func (p *parser) port(side side) (*node, error) {
	n, err := strconv.ParseUint(p.next(), 10, 16)
	if err != nil {
		return nil, p.expected("a port from 0 to 65535")
	}
	p.words = p.words[1:]
	return &node{test: ports, side: side, low: uint16(n), high: uint16(n)}, nil
}

func (p *parser) portRange(side side) (*node, error) {
	from, to, ok := strings.Cut(p.next(), "-")
	low, err1 := strconv.ParseUint(from, 10, 16)
	high, err2 := strconv.ParseUint(to, 10, 16)
	if !ok || err1 != nil || err2 != nil || low > high {
		return nil, p.expected("two ports, the lower first, as in portrange 8000-8080")
	}
	p.words = p.words[1:]
	return &node{test: ports, side: side, low: uint16(low), high: uint16(high)}, nil
}

func (p *parser) length(test test) (*node, error) {
	n, err := strconv.ParseUint(p.next(), 10, 31)
	if err != nil {
		return nil, p.expected("a number of bytes, as in greater 1400")
	}
	p.words = p.words[1:]
	return &node{test: test, size: int(n)}, nil
}
