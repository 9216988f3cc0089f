// Package envoy holds the Envoy config that tidemark is tested and shown with, and runs it.
//
// [Config] is the embedded bootstrap.yaml with other addresses; the file itself is valid and can be run as it is. [Start]
// runs an Envoy of the caller's on a config; scripts/find-envoy.sh finds or installs one. The end-to-end tests are in this
// folder, their environment is in envoytest.
package envoy

import (
	"bytes"
	_ "embed" // for bootstrap.yaml
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

//go:embed bootstrap.yaml
var bootstrap []byte

// Endpoints are the addresses of a config: host:port with a numeric host, or unix:/path. Port 0 of Listen and Admin picks a
// free one.
type Endpoints struct {
	Listen    string // clients
	Admin     string // Envoy's own interface
	Processor string // tidemark
	Upstream  string // the provider
}

// Defaults are the addresses that the embedded config has.
func Defaults() Endpoints {
	return Endpoints{
		Listen: "0.0.0.0:10000", Admin: "127.0.0.1:9901", Processor: "127.0.0.1:9002", Upstream: "127.0.0.1:8080",
	}
}

// Config returns the embedded config with other addresses; an empty one stays as it is.
func Config(e Endpoints) ([]byte, error) {
	d := Defaults()
	out := bootstrap
	for _, c := range []struct{ from, to string }{
		{d.Listen, e.Listen}, {d.Admin, e.Admin}, {d.Processor, e.Processor}, {d.Upstream, e.Upstream},
	} {
		if c.to == "" {
			continue
		}
		host, port, err := net.SplitHostPort(c.from)
		if err != nil {
			return nil, fmt.Errorf("read address: %w", err)
		}
		to, err := address(c.to)
		if err != nil {
			return nil, err
		}
		from := fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
		if n := bytes.Count(out, []byte(from)); n != 1 {
			return nil, fmt.Errorf("replace address %s: found %d times", c.from, n)
		}
		out = bytes.Replace(out, []byte(from), to, 1)
	}
	return out, nil
}

// address is Envoy's form of an address, as JSON, which is YAML.
func address(a string) ([]byte, error) {
	if path, ok := strings.CutPrefix(a, "unix:"); ok {
		return json.Marshal(map[string]any{"pipe": map[string]any{"path": path}})
	}
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read port of %s: %w", a, err)
	}
	return json.Marshal(map[string]any{"socket_address": map[string]any{"address": host, "port_value": n}})
}
