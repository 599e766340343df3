package config

import (
	"errors"
	"strconv"
	"strings"
)

var errHostPort = errors.New("is not host:port")

// splitHostPort splits "host:port" or "[IPv6]:port", with a decimal port.
func splitHostPort(text string) (host string, port uint16, err error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return "", 0, errHostPort
	}
	host = text[:colon]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return "", 0, errHostPort
		}
	} else if strings.ContainsAny(host, ":[]") {
		return "", 0, errHostPort
	}
	n, err := strconv.ParseUint(text[colon+1:], 10, 16)
	if err != nil {
		return "", 0, errHostPort
	}
	return host, uint16(n), nil
}
