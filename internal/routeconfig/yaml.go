package routeconfig

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// FromYAML returns a YAML mapping as maps, lists and scalars. An empty document is an empty mapping.
func FromYAML(n *yaml.Node) (map[string]any, error) {
	out := map[string]any{}
	if n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return out, nil
	}
	if Deref(n).Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: must be a mapping", n.Line)
	}
	if err := n.Decode(&out); err != nil {
		return nil, fmt.Errorf("read mapping: %w", err)
	}
	return out, nil
}

// Deref follows an alias to what it stands for.
func Deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// Locate returns the node that a path of a Problem leads to: the key where it is one of a mapping, the element where it is
// one of a list. Where the path leads out of the tree, it is the last node that is there.
func Locate(n *yaml.Node, path []string) *yaml.Node {
	at := n
	for _, step := range path {
		n = Deref(n)
		key, value := child(n, step)
		if value == nil {
			return at
		}
		at, n = key, value
	}
	return at
}

// child returns key and value of one step; of a list, the element is both.
func child(n *yaml.Node, step string) (key, value *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	}
	if i, err := strconv.Atoi(strings.Trim(step, "[]")); err == nil && n.Kind == yaml.SequenceNode && i >= 0 && i < len(n.Content) {
		return n.Content[i], n.Content[i]
	}
	return nil, nil
}
