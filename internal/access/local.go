package access

import (
	"net"
	"net/netip"
	"strings"
)

const unixPrefix = "unix:"

// Local reports whether nobody on another machine reaches a listener by its address: "unix:path", or "host:port" with localhost
// or a loopback address.
func Local(listen string) bool {
	if strings.HasPrefix(listen, unixPrefix) {
		return true
	}
	host, _, err := net.SplitHostPort(listen)
	return err == nil && loopback(host)
}

// loopback reports whether a host is this machine by its own name or address.
func loopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761, 6.3
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// foreign reports whether a request over the loopback names another host. Its sender is a browser then, on which a page has
// made its own name one of this machine's addresses to read what is here (DNS rebinding).
func foreign(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return !loopback(strings.ToLower(strings.Trim(host, "[]")))
}
