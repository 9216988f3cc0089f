package serverconfig_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// docs/config.md, docs/presets.md and examples/tidemark.yaml are written from the code:
//
//	go test ./internal/serverconfig -run TestGenerated -update
var update = flag.Bool("update", false, "write docs/config.md, docs/presets.md and examples/tidemark.yaml")

const (
	docsFile    = "../../docs/config.md"
	presetsFile = "../../docs/presets.md"
	exampleFile = "../../examples/tidemark.yaml"
)

func TestGenerated(t *testing.T) {
	for path, want := range map[string]string{docsFile: docs(), presetsFile: presets(), exampleFile: example()} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everybody.
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not what the code says: %s", path, diff)
		}
	}
}

// The example says every default, and says it in the way that the server reads it.
func TestExampleIsTheDefaults(t *testing.T) {
	l, err := serverconfig.Load(serverconfig.Sources{File: exampleFile, Filters: known()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := serverconfig.Load(serverconfig.Sources{Filters: known()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Settings() {
		if !strings.HasPrefix(s.Origin, "file ") && s.Key != "log" {
			t.Errorf("%s is not in the example", s.Key)
		}
	}
	l.Pipelines = d.Pipelines
	if diff := cmp.Diff(d.Redacted(), l.Redacted()); diff != "" {
		t.Errorf("the example differs from the defaults: %s", diff)
	}
	every := make([]any, 0, len(known()))
	for _, f := range known() {
		every = append(every, f.Name)
	}
	fresh, problems := routeconfig.New(routeconfig.Options{Filters: known(), Default: map[string]any{"pipeline": every}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	named := l.Routes.Resolve("", routeconfig.Sources{Name: "every-filter"})
	if diff := cmp.Diff(fresh.Default().Effective, named.Effective); diff != "" {
		t.Errorf("the filters' defaults in the example differ: %s", diff)
	}
}

func value(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(b), ",", ", ")
}

func docs() string {
	var b strings.Builder
	serverDocs(&b)
	priceDocs(&b)
	routeDocs(&b)
	return b.String()
}

func serverDocs(b *strings.Builder) {
	p := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	p(`# Configuration

Written from the code; ` + "`examples/tidemark.yaml`" + ` says the same as YAML. Before you deploy: ` + "`tidemark check FILE…`" + ` reads this file and
Envoy's, and ` + "`tidemark check --print`" + ` shows each effective value and where it came from.

## Server

One YAML file (` + "`--config`" + `), environment variables, flags. A flag counts before a variable, that before the file, that before the default. Unknown keys
and wrong types stop the start. While the server runs, the file is read again when it changes and on SIGHUP; a file that cannot be used
changes nothing and is counted in ` + "`tidemark_config_loads_total{result=\"error\"}`" + `. ` + "`mode`, `off_routes`, `log.level`, `default` and `pipelines`" + ` are taken over at once,
the other keys at the next start. The files of tokens and of certificates are read again when they change, those of secret and encryption keys at the next start.

| key | default | variable | flag | meaning |
|---|---|---|---|---|`)
	d := serverconfig.Defaults()
	flags := map[string]bool{"listen": true, "admin.listen": true, "restore.listen": true, "state": true, "log.level": true, "log.format": true}
	for _, k := range routeconfig.Describe(&d) {
		env, flag := "`"+serverconfig.EnvName(k.Name)+"`", ""
		if flags[k.Name] {
			flag = "`" + serverconfig.FlagName(k.Name) + "`"
		}
		switch k.Name {
		case "off_routes", "default", "pipelines", "prices":
			env = ""
		}
		p("| `%s` | `%s` | %s | %s | %s |", k.Name, value(k.Default), env, flag, k.Doc)
	}
}

func priceDocs(b *strings.Builder) {
	fmt.Fprint(b, `
## Prices

The built-in table (docs/prices.md) holds list prices, cache minimums and context windows. What an entry of `+"`prices`"+` says counts before it:

`+"```yaml"+`
prices:
- {model: "claude-sonnet-4-5*", input: 2.4, output: 12, read: 0.24, write_5m: 3, write_1h: 4.8}
`+"```"+`

| key | meaning |
|---|---|
`)
	for _, k := range routeconfig.Describe(&cache.Override{}) {
		fmt.Fprintf(b, "| `%s` | %s |\n", k.Name, k.Doc)
	}
	fmt.Fprint(b, `
What an entry leaves out, or sets to 0, stays as it is.
`)
}

func routeDocs(b *strings.Builder) {
	p := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	p(`
## Route

A route's config comes from the first place that holds one; an empty one counts as none:

1. dynamic metadata, namespace ` + "`tidemark`" + `: per-route ` + "`set_metadata`" + ` and ` + "`forwarding_namespaces: {untyped: [tidemark]}`" + `
2. gRPC initial metadata ` + "`x-tidemark-route`" + `: JSON; ` + "`%%METADATA(ROUTE:tidemark)%%`" + ` sends a route's metadata so, in every Envoy
3. gRPC initial metadata ` + "`x-tidemark-pipeline`" + `: the name of one of the server's ` + "`pipelines`" + `, or of a preset (docs/presets.md)
4. the server's ` + "`default`" + `

A ` + "`pipeline`" + ` that is a list stands alone, with the defaults below for what it leaves out; with an empty list the levers (` + "`ttl`, `place`" + `) still act. Where it
is a name, that config is the base and the other keys are laid over it; without ` + "`pipeline`" + ` the base is the server's default, which itself starts
from the preset ` + "`default`" + `. A config that cannot be used makes its route replay only (what is in force stays, nothing new is decided), is logged
once and counted in ` + "`tidemark_config_route_errors_total`" + `.

Envoy's YAML reader turns an unquoted ` + "`off`" + ` into false, and a fraction into a string; both are understood, and so are ` + "`on` and `off`" + ` as strings
where a key from ` + "`place` to `brake`" + ` is true or false.

| key | default | meaning |
|---|---|---|`)
	r := routeconfig.DefaultKeys()
	r.Pipeline = "default"
	for _, k := range routeconfig.Describe(&r) {
		p("| `%s` | `%s` | %s |", k.Name, value(k.Default), k.Doc)
	}
	for _, f := range known() {
		p("\n## Filter %s\n\nIt %s. Keys under `components: {%s: {…}}`:\n\n| key | default | meaning |\n|---|---|---|", f.Name, f.Summary, f.Name)
		for _, k := range routeconfig.Describe(f.Default()) {
			p("| `%s` | `%s` | %s |", k.Name, value(k.Default), k.Doc)
		}
	}
}

func presets() string {
	var b strings.Builder
	b.WriteString(`# Presets

Written from the code. A preset is a pipeline that every server has without config: a route takes it by its name (` + "`pipeline: lossless`, or" + `
` + "`x-tidemark-pipeline: lossless`" + `) and may lay keys over it. An entry of the server's ` + "`pipelines`" + ` of the same name takes its place. ` + "`pipeline: default`" + `
means the server's own ` + "`default`" + `, which is the preset of that name where the server's config says nothing else.
Whatever preset a route names, what the server's ` + "`default`" + ` says of ` + "`tenant`, `session_headers`, `anonymous`, `resigned`, `binding` and `mode`" + ` counts unless the route
says otherwise; a pipeline of the server's own ` + "`pipelines`" + ` stands alone.

The figures are modelled: recorded sessions of a coding agent (202 with timestamps and the provider's own usage) played against a model of Anthropic's
cache, in which a prefix is read at a tenth of the price, written at 1.25 (5 minutes) or 2.0 (an hour), and written anew after a pause that is longer.
They are relative to the cost of the input without tidemark, and good for comparing policies; they are no promise. *Net* also charges
a call for each removed result that was used again.
`)
	for _, p := range routeconfig.Presets() {
		text, err := yaml.Dump(p.Config)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "\n## %s\n\nFor: %s.\n\n```yaml\n%s```\n\n%s\n", p.Name, p.Summary, text, p.Reason)
	}
	return b.String()
}

// writer writes YAML with a comment before each key.
type writer struct{ strings.Builder }

func (w *writer) key(depth int, name, doc, value string) {
	in := strings.Repeat("  ", depth)
	if doc != "" {
		w.WriteString(in + "# " + doc + "\n")
	}
	w.WriteString(strings.TrimRight(in+name+": "+value, " ") + "\n")
}

func (w *writer) filter(f *routeconfig.Filter) {
	w.key(3, f.Name, f.Summary, "")
	for _, k := range routeconfig.Describe(f.Default()) {
		w.key(4, k.Name, k.Doc, value(k.Default))
	}
}

func example() string {
	var w writer
	w.WriteString("# Every key of tidemark's server config with its default. Written from the code, see docs/config.md.\n\n")
	d := serverconfig.Defaults()
	var sections []string
	for _, k := range routeconfig.Describe(&d) {
		path := strings.Split(k.Name, ".")
		name, depth := path[len(path)-1], len(path)-1
		for i, s := range path[:depth] {
			if i >= len(sections) || sections[i] != s {
				sections = append(sections[:i], s)
				w.key(i, s, "", "")
			}
		}
		sections = sections[:depth]
		switch k.Name {
		case "default":
			w.key(0, name, k.Doc, "")
			r := routeconfig.DefaultKeys()
			if problems := routeconfig.Decode(d.Default, &r); len(problems) > 0 {
				return problems.Err().Error()
			}
			for _, k := range routeconfig.Describe(&r) {
				if k.Name == "components" {
					k.Default = d.Default[k.Name]
				}
				w.key(1, k.Name, k.Doc, value(k.Default))
			}
		case "pipelines":
			w.key(0, name, k.Doc, "")
			w.key(1, "every-filter", "", "")
			names := make([]string, 0, len(known()))
			for _, f := range known() {
				names = append(names, f.Name)
			}
			w.key(2, "pipeline", "", value(names))
			w.key(2, "components", "", "")
			for _, f := range known() {
				w.filter(&f)
			}
		default:
			w.key(depth, name, k.Doc, value(k.Default))
		}
	}
	return w.String()
}
