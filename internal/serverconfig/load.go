package serverconfig

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// Sources are where a config comes from.
type Sources struct {
	File         string                                                 // YAML; empty: no file
	Env          func(name string) (value string, ok bool)              // os.LookupEnv; nil: no environment
	Flags        map[string]string                                      // values of flags that were given, by key
	Filters      []routeconfig.Filter                                   // that routes can name
	OnRouteError func(route string, from routeconfig.Source, err error) // see routeconfig.Options
}

// Loaded is a config in use. It is immutable.
type Loaded struct {
	Config
	Routes     *routeconfig.Resolver
	PriceTable *cache.Table      // the built-in one, as the config's prices have it
	Hash       string            // of the whole effective config
	Content    Digest            // of the file as it was read
	Origins    map[string]Origin // of every key with one value, by key; of default, pipelines and prices too
}

// Origin says where the value of a key came from.
type Origin struct {
	Kind  string // flag, env, file or default
	Where string // --listen, TIDEMARK_LISTEN, tidemark.yaml:3; empty for a default
}

func (o Origin) String() string {
	if o.Where == "" {
		return o.Kind
	}
	return o.Kind + " " + o.Where
}

// Fault is a problem and where it stands.
type Fault struct {
	Where     string // flag, variable or file
	Line, Col int    // in the file; 0 if it is none
	Problem   *routeconfig.Problem
}

// String is the fault on one line, in the form that editors and CI systems read.
func (f *Fault) String() string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d:%d: %s", f.Where, f.Line, f.Col, f.Problem)
	}
	return f.Where + ": " + f.Problem.String()
}

// EnvName is the environment variable of a key.
func EnvName(key string) string {
	return "TIDEMARK_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// FlagName is the flag of a key, for those that have one.
func FlagName(key string) string { return "--" + strings.ReplaceAll(key, ".", "-") }

// Load reads the config. The error has a line for each [Fault].
func Load(s Sources) (*Loaded, error) {
	var root *yaml.Node
	var content Digest
	if s.File != "" {
		data, err := os.ReadFile(s.File)
		if err != nil {
			return nil, fmt.Errorf("read config: %w", err)
		}
		content = digest(data)
		if root, err = document(data); err != nil {
			return nil, fmt.Errorf("read config: %s: %w", s.File, err)
		}
	}
	l, faults := FromNode(root, s)
	if l != nil {
		l.Content = content
	}
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = errors.New(f.String())
	}
	return l, errors.Join(errs...)
}

// document reads the one document of a file; an empty file is an empty document.
func document(data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var root yaml.Node
	switch err := d.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return root.Content[0], nil
}

// FromNode is Load with the file read already; root may be nil. s.File names it in faults. With faults, the config holds
// what was legible, and Routes may be nil.
func FromNode(root *yaml.Node, s Sources) (*Loaded, []*Fault) {
	raw, err := routeconfig.FromYAML(root)
	if err != nil {
		line, col := 1, 1
		if root != nil {
			line, col = root.Line, root.Column
		}
		return nil, []*Fault{{Where: s.File, Line: line, Col: col, Problem: &routeconfig.Problem{Text: err.Error()}}}
	}
	l := &Loaded{Config: Defaults(), Origins: origins(root, s.File)}
	for _, k := range scalars(&l.Config) {
		if v, o, ok := s.override(k.Name); ok {
			set(raw, strings.Split(k.Name, "."), v)
			l.Origins[k.Name] = o
		}
	}
	problems := routeconfig.Decode(raw, &l.Config)
	problems = append(problems, l.validate()...)
	if len(problems) == 0 {
		problems = l.price()
	}
	if len(problems) == 0 {
		l.Routes, problems = routeconfig.New(routeconfig.Options{
			Filters: s.Filters, Pipelines: l.Pipelines, Default: l.Default, Mode: l.Mode, OnError: s.OnRouteError,
		})
	}
	faults := make([]*Fault, len(problems))
	for i, p := range problems {
		faults[i] = l.fault(p, root, s.File)
	}
	slices.SortStableFunc(faults, func(a, b *Fault) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) })
	if len(faults) == 0 {
		l.Default = l.Routes.Default().Effective
		l.Hash = hash(&l.Config)
	}
	return l, faults
}

// price makes the table of prices.
func (l *Loaded) price() routeconfig.Problems {
	table, err := cache.Prices().With(l.Prices)
	if err != nil {
		place, text, _ := strings.Cut(err.Error(), ": ")
		return routeconfig.Problems{{Path: strings.FieldsFunc(strings.ReplaceAll(place, "[", ".["), func(r rune) bool { return r == '.' }), Text: text}}
	}
	l.PriceTable = table
	return nil
}

// override returns the value of a key that a flag or the environment gives.
func (s *Sources) override(key string) (string, Origin, bool) {
	if v, ok := s.Flags[key]; ok {
		return v, Origin{"flag", FlagName(key)}, true
	}
	if s.Env != nil {
		if v, ok := s.Env(EnvName(key)); ok && v != "" {
			return v, Origin{"env", EnvName(key)}, true
		}
	}
	return "", Origin{}, false
}

// set puts a value under a path of keys. What stands in its way is replaced.
func set(m map[string]any, path []string, v any) {
	for _, k := range path[:len(path)-1] {
		sub, ok := m[k].(map[string]any)
		if !ok {
			sub = map[string]any{}
			m[k] = sub
		}
		m = sub
	}
	m[path[len(path)-1]] = v
}

func origins(root *yaml.Node, file string) map[string]Origin {
	d := Defaults()
	out := map[string]Origin{}
	for _, k := range routeconfig.Describe(&d) {
		out[k.Name] = Origin{Kind: "default"}
		if n := located(root, strings.Split(k.Name, ".")); n != nil {
			out[k.Name] = Origin{"file", fmt.Sprintf("%s:%d", file, n.Line)}
		}
	}
	return out
}

// located is the node of a path, nil if it is not in the file.
func located(root *yaml.Node, path []string) *yaml.Node {
	if root == nil {
		return nil
	}
	if n := routeconfig.Locate(root, path); n.Kind == yaml.ScalarNode && n.Value == path[len(path)-1] {
		return n
	}
	return nil
}

func (l *Loaded) fault(p *routeconfig.Problem, root *yaml.Node, file string) *Fault {
	if o := l.Origins[strings.Join(p.Path, ".")]; o.Kind == "flag" || o.Kind == "env" {
		return &Fault{Where: o.Where, Problem: p}
	}
	if root == nil {
		return &Fault{Where: "config", Problem: p}
	}
	n := routeconfig.Locate(root, p.Path)
	return &Fault{Where: file, Line: n.Line, Col: n.Column, Problem: p}
}

func hash(c *Config) string {
	b, err := json.Marshal(routeconfig.Plain(c))
	if err != nil { // YAML holds numbers that JSON does not
		b = fmt.Appendf(nil, "%v", routeconfig.Plain(c))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Setting is one effective value, for people.
type Setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

// Settings lists every key with its effective value and where it came from, without credentials.
func (l *Loaded) Settings() []Setting {
	redacted := l.Redacted()
	keys := routeconfig.Describe(&l.Config)
	out := make([]Setting, 0, len(keys))
	for _, k := range keys {
		var v any = redacted
		for step := range strings.SplitSeq(k.Name, ".") {
			v = v.(map[string]any)[step]
		}
		out = append(out, Setting{k.Name, v, l.Origins[k.Name].String()})
	}
	return out
}
