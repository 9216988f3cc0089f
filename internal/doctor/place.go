package doctor

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// kinds are the lists of Envoy's config whose elements people know by name, and what an element is called.
var kinds = map[string]string{
	"listeners": "listener", "clusters": "cluster", "virtual_hosts": "virtual host", "routes": "route", "http_filters": "filter",
}

// place says in names where a line of a document lies: listener ingress, virtual host all, route messages. fallback is for a
// line that lies in nothing that has a name.
func place(root *yaml.Node, line int, fallback string) string {
	var names []string
	for n, kind := root, ""; n != nil; {
		if name := member(n, "name"); kind != "" && name != "" {
			names = append(names, kind+" "+name)
		}
		n, kind = around(n, kind, line)
	}
	if len(names) == 0 {
		return fallback
	}
	return strings.Join(names, ", ")
}

// around is the child of a node in which a line lies, and what it is called if it has a name. Nodes begin on lines of their own.
func around(n *yaml.Node, kind string, line int) (child *yaml.Node, called string) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 || c.Line > line {
			continue // a key, or behind the line
		}
		child = c
		if n.Kind == yaml.MappingNode {
			called = kinds[n.Content[i-1].Value]
		} else {
			called = kind
		}
	}
	return child, called
}

// member is the text of a mapping's key, empty without one.
func member(n *yaml.Node, key string) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i+1].Kind == yaml.ScalarNode {
			return n.Content[i+1].Value
		}
	}
	return ""
}
