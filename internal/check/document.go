package check

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// document is one YAML document.
type document struct {
	file        string
	root        *yaml.Node
	lines, cols int        // where it begins in the file, if it stands in a string of another document
	at          *yaml.Node // that string, if positions within it are not known
	server      bool       // it is a server config
}

// place is where a node stands in the file.
func (d *document) place(n *yaml.Node) (line, col int) {
	if d.at != nil {
		return d.at.Line, d.at.Column
	}
	return n.Line + d.lines, n.Column + d.cols
}

// read reads the documents of a text, those inside ConfigMaps too.
func read(s Source) ([]*document, error) {
	roots, err := parse(s.Data)
	if err != nil {
		return nil, fmt.Errorf("read file: %s: %w", s.Name, err)
	}
	var docs []*document
	for _, root := range roots {
		docs = append(docs, &document{file: s.Name, root: root, server: isServer(root)})
		docs = append(docs, configMap(s.Name, root, s.Data)...)
	}
	return docs, nil
}

func parse(data []byte) (roots []*yaml.Node, err error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		switch err := d.Decode(&n); {
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return nil, err
		}
		if len(n.Content) > 0 {
			roots = append(roots, n.Content[0])
		}
	}
}

// serverOnly are keys that tell a server config from Envoy's bootstrap, which has admin too.
var serverOnly = []string{
	"listen", "restore", "compress", "state", "secret_file", "encryption_key_file", "max_original_bytes", "log", "deadline", "max_body_bytes",
	"drain_delay", "drain_timeout", "mode", "off_routes", "default", "pipelines", "prices",
}

// foreign are keys of a document that is something else.
var foreign = []string{"kind", "apiVersion", "static_resources", "dynamic_resources", "resources", "node", "@type", "name", "match", "http_filters", "virtual_hosts", "filter_chains"}

func isServer(root *yaml.Node) bool {
	if root.Kind != yaml.MappingNode || slices.ContainsFunc(foreign, func(k string) bool { return get(root, k) != nil }) {
		return false
	}
	return slices.ContainsFunc(serverOnly, func(k string) bool { return get(root, k) != nil }) || get(root, "admin", "listen") != nil
}

// configMap reads the documents in the data of a ConfigMap.
func configMap(path string, root *yaml.Node, source []byte) (docs []*document) {
	if scalar(get(root, "kind")) != "ConfigMap" {
		return nil
	}
	for name, value := range pairs(get(root, "data")) {
		if !slices.ContainsFunc([]string{".yaml", ".yml", ".json"}, func(ext string) bool { return strings.HasSuffix(name.Value, ext) }) {
			continue
		}
		roots, err := parse([]byte(value.Value))
		if err != nil {
			continue // a template, perhaps
		}
		for _, r := range roots {
			d := &document{file: path, root: r, server: isServer(r), at: value}
			if value.Style&yaml.LiteralStyle != 0 {
				d.at, d.lines, d.cols = nil, value.Line, indent(source, value.Line+1)
			}
			docs = append(docs, d)
		}
	}
	return docs
}

// indent is the number of spaces that the first line with text at or after the given one starts with. The text of a literal
// begins in its first column but for what is deeper there, which the first line never is.
func indent(source []byte, line int) int {
	for i, l := range bytes.Split(source, []byte("\n")) {
		if text := bytes.TrimLeft(l, " "); i+1 >= line && len(bytes.TrimSpace(text)) > 0 {
			return len(l) - len(text)
		}
	}
	return 0
}
