package check

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

// get returns the value of a key, nil without one. Envoy accepts its keys in snake and in camel case; merged mappings
// count.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n = member(n, key); n == nil {
			return nil
		}
	}
	return n
}

func member(n *yaml.Node, key string) *yaml.Node {
	for k, v := range pairs(n) {
		if k.Value == key || k.Value == camel(key) {
			return v
		}
	}
	return inherited(n, key, map[*yaml.Node]bool{})
}

// inherited looks for a key in what is merged into a mapping. A mapping may be merged into itself.
func inherited(n *yaml.Node, key string, seen map[*yaml.Node]bool) *yaml.Node {
	if seen[n] {
		return nil
	}
	seen[n] = true
	for k, v := range pairs(n) {
		if k.Value != "<<" {
			continue
		}
		for _, m := range append(items(v), v) {
			for k, v := range pairs(m) {
				if k.Value == key || k.Value == camel(key) {
					return v
				}
			}
			if found := inherited(m, key, seen); found != nil {
				return found
			}
		}
	}
	return nil
}

func camel(key string) string {
	parts := strings.Split(key, "_")
	for i := range parts[1:] {
		if p := parts[i+1]; p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

// pairs yields keys and values of a mapping, aliases followed.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		if n == nil || routeconfig.Deref(n).Kind != yaml.MappingNode {
			return
		}
		n = routeconfig.Deref(n)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], routeconfig.Deref(n.Content[i+1])) {
				return
			}
		}
	}
}

// items are the elements of a sequence, aliases followed.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || routeconfig.Deref(n).Kind != yaml.SequenceNode {
		return nil
	}
	n = routeconfig.Deref(n)
	out := make([]*yaml.Node, len(n.Content))
	for i, e := range n.Content {
		out[i] = routeconfig.Deref(e)
	}
	return out
}

// scalar is the text of a scalar, "" of anything else.
func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// isTrue reports whether a node is true as Envoy's reader has it.
func isTrue(n *yaml.Node) bool {
	switch strings.ToLower(scalar(n)) {
	case "true", "yes", "on", "y":
		return true
	}
	return false
}

// withBooleans is a copy of a tree in which plain scalars that Envoy's reader turns into booleans are some. Keys stay words: it
// reads all of them as strings. copies are those made so far, because an anchor may stand inside what it is for.
func withBooleans(n *yaml.Node, copies map[*yaml.Node]*yaml.Node) *yaml.Node {
	if n == nil || copies[n] != nil {
		return copies[n]
	}
	out := *n
	copies[n] = &out
	if word := boolean(n); word != "" {
		out.Tag, out.Value = "!!bool", word
	}
	out.Alias, out.Content = withBooleans(n.Alias, copies), slices.Clone(n.Content)
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			out.Content[i] = withBooleans(c, copies)
		}
	}
	return &out
}

// boolean is true or false for a plain scalar that says so in one of YAML 1.1's words, empty for any other.
func boolean(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || n.Style != 0 {
		return ""
	}
	switch n.Value {
	case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
		return "true"
	case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
		return "false"
	}
	return ""
}

// number is the value of a number, quoted or not.
func number(n *yaml.Node) (v uint64, ok bool) {
	v, err := strconv.ParseUint(scalar(n), 10, 64)
	return v, err == nil
}

// duration is the value of a protobuf duration, such as 5s or 0.250s; Kubernetes resources also use ms.
func duration(n *yaml.Node) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(scalar(n))
	return d, err == nil
}

// mentions reports whether any text under the node holds one of the words.
func mentions(n *yaml.Node, words ...string) bool {
	if n == nil {
		return false
	}
	if n.Kind == yaml.ScalarNode {
		text := strings.ToLower(n.Value)
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	for _, c := range n.Content {
		if mentions(c, words...) {
			return true
		}
	}
	return false
}

// typed returns the type and the config of a typed_config: what stands beside "@type", or the value of a TypedStruct.
func typed(m *yaml.Node) (name string, config *yaml.Node) {
	name = scalar(get(m, "@type"))
	if strings.HasSuffix(name, ".TypedStruct") {
		name, m = scalar(get(m, "type_url")), get(m, "value")
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	return name, m
}

// walker visits every mapping of a tree once. up are the mappings around it, nearest last.
type walker struct {
	seen  map[*yaml.Node]bool
	visit func(m *yaml.Node, up []*yaml.Node)
}

func walk(root *yaml.Node, visit func(m *yaml.Node, up []*yaml.Node)) {
	w := walker{map[*yaml.Node]bool{}, visit}
	w.walk(root, nil)
}

func (w *walker) walk(n *yaml.Node, up []*yaml.Node) {
	n = routeconfig.Deref(n)
	if w.seen[n] || n.Kind == yaml.ScalarNode {
		return
	}
	w.seen[n] = true
	if n.Kind == yaml.MappingNode {
		w.visit(n, up)
		up = append(slices.Clip(up), n)
	}
	for _, c := range n.Content {
		w.walk(c, up)
	}
}
