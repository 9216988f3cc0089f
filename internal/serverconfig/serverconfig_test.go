package serverconfig_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func known() []routeconfig.Filter {
	specs := all.Specs()
	out := make([]routeconfig.Filter, len(specs))
	for i, s := range specs {
		out[i] = routeconfig.Filter(s)
	}
	return out
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func file(t *testing.T, text string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "tidemark.yaml"), text)
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func TestFlagBeforeEnvBeforeFileBeforeDefault(t *testing.T) {
	path := file(t, "listen: :1\nadmin: {listen: :1}\nlog:\n  level: warn\n  format: json\ndeadline: 2s\n")
	l, err := serverconfig.Load(serverconfig.Sources{
		File: path, Filters: known(),
		Env:   env(map[string]string{"TIDEMARK_LISTEN": ":2", "TIDEMARK_ADMIN_LISTEN": ":2", "TIDEMARK_LOG_LEVEL": "error", "TIDEMARK_MODE": "shadow", "TIDEMARK_STATE": "", "TIDEMARK_MAX_BODY_BYTES": "1000"}),
		Flags: map[string]string{"listen": ":3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"listen":         "flag --listen :3",
		"admin.listen":   "env TIDEMARK_ADMIN_LISTEN :2",
		"log.level":      "env TIDEMARK_LOG_LEVEL error",
		"log.format":     "file " + path + ":5 json",
		"deadline":       "file " + path + ":6 2s",
		"state":          "default tidemark-state",
		"mode":           "env TIDEMARK_MODE shadow",
		"max_body_bytes": "env TIDEMARK_MAX_BODY_BYTES 1000",
	} {
		for _, s := range l.Settings() {
			if s.Key != key {
				continue
			}
			if got := strings.TrimSpace(s.Origin + " " + toString(s.Value)); got != want {
				t.Errorf("%s: got %q, want %q", key, got, want)
			}
			want = ""
		}
		if want != "" {
			t.Errorf("no setting %s", key)
		}
	}
	if l.Mode != pipeline.Shadow || l.Routes.Default().Config.Mode != pipeline.Shadow {
		t.Errorf("mode %s, of the default route %s", l.Mode, l.Routes.Default().Config.Mode)
	}
}

func toString(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int:
		return map[int]string{1000: "1000"}[v]
	}
	return ""
}

// Without a credential the doors are for this machine alone.
func TestDoors(t *testing.T) {
	for _, section := range []string{"compress: ", "restore: "} {
		for _, text := range []string{
			`{listen: "127.0.0.1:9014"}`, `{listen: "[::1]:9004"}`, `{listen: "localhost:0"}`, `{listen: "unix:/run/tidemark"}`, `{listen: ""}`,
			`{listen: ":9004", token_file: /etc/token}`, `{listen: ":9004", tls: {cert_file: a, key_file: b, client_ca_file: c}}`,
		} {
			if _, err := serverconfig.Load(serverconfig.Sources{File: file(t, section+text), Filters: known()}); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// The page shows content only to those who have shown who they are, also on this machine.
func TestContentNeedsACredential(t *testing.T) {
	for text, ok := range map[string]bool{
		`{content: true, token_file: /etc/token}`:                              true,
		`{content: true, tls: {cert_file: a, key_file: b, client_ca_file: c}}`: true,
		`{content: true, tls: {cert_file: a, key_file: b}}`:                    false,
		`{content: true, listen: "unix:/run/tidemark"}`:                        false,
	} {
		if _, err := serverconfig.Load(serverconfig.Sources{File: file(t, "admin: "+text), Filters: known()}); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Nobody but this machine reaches what a server without a config offers besides ext_proc, which others must reach.
func TestDefaultsAreLocal(t *testing.T) {
	d := serverconfig.Defaults()
	if !access.Local(d.Admin.Listen) || !access.Local(d.Restore.Listen) || d.Compress.Listen != "" {
		t.Errorf("%s, %s, %s", d.Admin.Listen, d.Restore.Listen, d.Compress.Listen)
	}
}

func TestFaultsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		"listen: nowhere":                       `FILE:1:1: listen: must be host:port or unix:path`,
		"lissen: :1":                            `FILE:1:1: lissen: unknown key; accepted: listen, tls, admin, restore, compress, state, secret_file, encryption_key_file, max_original_bytes, log, events, otel, deadline, max_body_bytes, drain_delay, drain_timeout, mode, off_routes, default, pipelines, prices`,
		"compress: {listen: nowhere}":           `FILE:1:12: compress.listen: must be host:port or unix:path`,
		"compress: {listen: \":9004\"}":         `FILE:1:12: compress.listen: others could reach it: without token_file or mutual TLS it must be a loopback address or unix:path`,
		"compress: {listen: \"tidemark:9004\"}": `FILE:1:12: compress.listen: others could reach it: without token_file or mutual TLS it must be a loopback address or unix:path`,
		"log:\n  level: loud":                   `FILE:2:3: log.level: not one of the known words; accepted: debug, info, warn, error`,
		"log: loud":                             `FILE:1:1: log: must be a mapping`,
		"log: {lewel: info}":                    `FILE:1:7: log.lewel: unknown key; accepted: level, format`,
		"admin: {content: true}":                `FILE:1:9: admin.content: needs token_file or mutual TLS`,
		"events: {max_bytes: 1}":                `FILE:1:10: events.max_bytes: must be at least 65536`,
		"events: {keep: -1}":                    `FILE:1:10: events.keep: must not be negative`,
		"otel: {semconv: v1}":                   `FILE:1:8: otel.semconv: not one of the known words; accepted: v0.1, legacy, off`,
		"otel: {usage: on}":                     `FILE:1:8: otel.usage:`,
		"deadline: 150":                         `FILE:1:1: deadline: must be a duration with its unit, such as 150ms or 5m`,
		"deadline: 0s":                          `FILE:1:1: deadline: must be above 0`,
		"max_body_bytes: 1e9":                   `FILE:1:1: max_body_bytes: must be from 1 to 67108864`,
		"admin: {listen: nowhere}":              `FILE:1:9: admin.listen: must be host:port or unix:path`,
		"admin: \":9003\"":                      `FILE:1:1: admin: must be a mapping`,
		"restore: {listen: \":9004\"}":          `FILE:1:11: restore.listen: others could reach it`,
		"restore: {listen: \":9004\", tls: {cert_file: a, key_file: b}}": `FILE:1:11: restore.listen: others could reach it`,
		"restore: {rate: 0}":                                `FILE:1:11: restore.rate: must be above 0, and at most 1000000`,
		"restore: {rate: fast}":                             `FILE:1:11: restore.rate: must be a number`,
		"restore: {tenant: everybody}":                      `FILE:1:11: restore.tenant: not one of the known words; accepted: id, credential, header:NAME`,
		"restore: {tenant: \"header:x-tidemark-token\"}":    `FILE:1:11: restore.tenant: this header holds the listener's own token`,
		"compress: {listen: \"127.0.0.1:9004\"}":            `FILE:1:12: compress.listen: another listener has this address`,
		"restore: {listen: \"127.0.0.1:9003\"}":             `FILE:1:11: restore.listen: another listener has this address`,
		"listen: \"unix:/t\"\nadmin: {listen: \"unix:/t\"}": `FILE:2:9: admin.listen: another listener has this address`,
		"restore: {tenant: \"header:\"}":                    `FILE:1:11: restore.tenant: must name a header`,
		"restore: {tenant: \"header:x y\"}":                 `FILE:1:11: restore.tenant: must name a header`,
		"tls: {cert_file: a}":                               `tls.key_file: must be there with cert_file`,
		"tls: {client_ca_file: a}":                          `tls.cert_file: must be there with key_file and client_ca_file`,
		"admin: {tls: {key_file: a}}":                       `admin.tls.cert_file: must be there with key_file`,
		"admin: {tls: {cert: a}}":                           `FILE:1:15: admin.tls.cert: unknown key; accepted: cert_file, key_file, client_ca_file`,
		"max_original_bytes: -1":                            `FILE:1:1: max_original_bytes: must not be negative`,
		"off_routes: x":                                     `FILE:1:1: off_routes: must be a list`,
		"off_routes: [a, '']":                               `FILE:1:17: off_routes[1]: must be the name of a route`,
		"default:\n  pipeline:\n  - nope":                   `FILE:3:5: default.pipeline[0]: unknown filter "nope"; accepted: ` + strings.Join(all.Names(), ", "),
		"pipelines:\n  a: {pipeline: b}":                    `FILE:2:7: pipelines.a.pipeline: must be a list of filters`,
		"pipelines: {a: 3}":                                 `FILE:1:13: pipelines.a: must be a mapping, not a number`,
		"default: {pipeline: coding}":                       `FILE:1:11: default.pipeline: no pipeline of that name`,
		"prices: {model: x}":                                `FILE:1:1: prices: must be a list`,
		"prices:\n- {model: x, imput: 2}":                   `FILE:2:14: prices[0].imput: unknown key; accepted: model, input, output, read, write_5m, write_1h, minimum, window, auto_ttl, bound`,
		"prices:\n- {model: x, input: cheap}":               `FILE:2:14: prices[0].input: must be a number`,
		"prices:\n- {model: x, bound: maybe}":               `FILE:2:14: prices[0].bound: must be true or false, not a string`,
		"prices:\n- {model: x}\n- {input: 2}":               `FILE:3:3: prices[1].model: `,
		"prices:\n- {model: claude*, read: -1}":             `FILE:2:20: prices[0].read: -1 is not a positive number`,
		"prices: [{model: x, input: 2}, 7]":                 `FILE:1:32: prices[1]: must be a mapping`,
		"- a":                                               `FILE:1:1: line 1: must be a mapping`,
		"listen: :1\n---\nlisten: :2":                       `read config: FILE: more than one document`,
		"listen: :1\nlisten: :2":                            `listen`, // the reader's own words
		"x: &a {y: *b}":                                     `unknown anchor`,
		"mode: offf\nstate: ''\nlog: {format: x}":           "FILE:1:1: mode: \"offf\" is not one of the known words; accepted: active, shadow, off\nFILE:2:1: state: must be a directory or memory:\nFILE:3:7: log.format: not one of the known words; accepted: text, json",
	} {
		path := file(t, text)
		_, err := serverconfig.Load(serverconfig.Sources{File: path, Filters: known()})
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		got := strings.ReplaceAll(err.Error(), path, "FILE")
		if !strings.Contains(got, want) {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestFaultOfAVariableAndAFlag(t *testing.T) {
	_, err := serverconfig.Load(serverconfig.Sources{
		Filters: known(), Env: env(map[string]string{"TIDEMARK_DEADLINE": "soon"}), Flags: map[string]string{"log.level": "loud"},
	})
	want := "TIDEMARK_DEADLINE: deadline: must be a duration with its unit, such as 150ms or 5m\n" +
		"--log-level: log.level: not one of the known words; accepted: debug, info, warn, error"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestRedacted(t *testing.T) {
	l, err := serverconfig.Load(serverconfig.Sources{Filters: known(), Flags: map[string]string{"state": "redis://me:hunter2@host/0"}})
	if err != nil {
		t.Fatal(err)
	}
	if s := l.Redacted()["state"]; s != "redis://me:xxxxx@host/0" {
		t.Error(s)
	}
}

// Prices of the file are those of the table; without any, the built-in ones count.
func TestPrices(t *testing.T) {
	const model = "claude-sonnet-4-5"
	l, err := serverconfig.Load(serverconfig.Sources{
		Filters: known(), File: file(t, "prices:\n- {model: claude-sonnet-*, input: 1.5, window: 123456, bound: true}\n- {model: house/large, input: 4, output: 8}\n"),
		Env: env(map[string]string{"TIDEMARK_PRICES": "what"}), // lists have no variable
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := l.PriceTable.Lookup(model); p.Rates(1).Input != 1.5 || p.Window != 123456 || !p.Bound {
		t.Errorf("%+v", p)
	}
	if p := l.PriceTable.Lookup("house/large"); !p.Known || p.Rates(1).Input != 4 || p.Rates(1).Output != 8 {
		t.Errorf("%+v", p)
	}
	d, err := serverconfig.Load(serverconfig.Sources{Filters: known()})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.PriceTable.Lookup(model), cache.Prices().Lookup(model); !got.Known || got.Rates(1) != want.Rates(1) {
		t.Errorf("%+v, not %+v", got, want)
	}
	if d.Hash == l.Hash {
		t.Error("prices are no part of the config")
	}
	for _, s := range l.Settings() {
		if s.Key == "prices" && (!strings.HasPrefix(s.Origin, "file ") || len(s.Value.([]any)) != 2) {
			t.Errorf("%+v", s)
		}
	}
}

// A server whose config says nothing runs the preset default; one that names another runs that.
func TestDefaultIsAPreset(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "default auto",
		"default: {brake: off}":                "default auto",
		"default: {pipeline: lossless}":        "lossless auto",
		"default: {pipeline: observe}":         "observe keep",
		"default: {pipeline: [readlifecycle]}": "default keep",
		"pipelines: {observe: {pipeline: [], ttl: 1h}}\ndefault: {pipeline: observe}": "observe 1h",
	} {
		l, err := serverconfig.Load(serverconfig.Sources{File: file(t, text), Filters: known()})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		c := l.Routes.Default().Config
		if got := c.Name + " " + c.Levers.TTL.String(); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestNeedsRestart(t *testing.T) {
	a, b := serverconfig.Defaults(), serverconfig.Defaults()
	b.Listen, b.Mode, b.Log.Level, b.Log.Format = ":1", pipeline.Off, "debug", "json"
	b.OffRoutes = []string{"x"}
	b.Default = map[string]any{"mode": "off"}
	if got := strings.Join(serverconfig.NeedsRestart(&a, &b), " "); got != "listen log.format" {
		t.Error(got)
	}
	b.Prices = []cache.Override{{Model: "x", Input: 1}}
	if got := strings.Join(serverconfig.NeedsRestart(&a, &b), " "); got != "listen log.format prices" {
		t.Error(got)
	}
}

// After a reload the config in use has what could change, and the old values of what needs a restart.
func TestInUse(t *testing.T) {
	load := func(text string) *serverconfig.Loaded {
		t.Helper()
		file := filepath.Join(t.TempDir(), "tidemark.yaml")
		write(t, file, text)
		l, err := serverconfig.Load(serverconfig.Sources{File: file, Filters: known()})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	before := load("deadline: 100ms")
	after := load("mode: off\noff_routes: [x]\nlog: {level: debug, format: json}\ndeadline: 1s\nprices: [{model: x, input: 1}]\npipelines: {a: {pipeline: []}}")
	u := after.InUse(before)
	if u.Deadline != before.Deadline || u.Log.Format != "text" || len(u.Prices) > 0 || u.PriceTable != before.PriceTable || u.Origins["deadline"] != before.Origins["deadline"] {
		t.Errorf("what needs a restart changed: %+v", u.Config)
	}
	if u.Mode != pipeline.Off || len(u.OffRoutes) != 1 || u.Log.Level != "debug" || u.Pipelines["a"] == nil || u.Routes != after.Routes || u.Origins["mode"] != after.Origins["mode"] {
		t.Errorf("what can change did not: %+v", u.Config)
	}
	if same := before.InUse(before); same.Hash != before.Hash || u.Hash == before.Hash || u.Hash == after.Hash {
		t.Errorf("hashes %s, %s, in use %s", before.Hash, after.Hash, u.Hash)
	}
	if after.Deadline != time.Second {
		t.Error("what was loaded changed")
	}
}

// A file is seen to change when it is written to, replaced by renaming, and when the directory that it is linked into is
// exchanged, as Kubernetes does; and a signal always counts.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "..one"), filepath.Join(dir, "..two")
	for _, d := range []string{one, two} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(one, "tidemark.yaml"), "mode: off")
	write(t, filepath.Join(two, "tidemark.yaml"), "mode: shadow")
	link := func(target, name string) {
		t.Helper()
		tmp := filepath.Join(dir, "tmp")
		if err := os.Symlink(target, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..one", "..data")
	link(filepath.Join("..data", "tidemark.yaml"), "tidemark.yaml")

	loaded := content(t, filepath.Join(dir, "tidemark.yaml"))
	ctx, cancel := context.WithCancel(t.Context())
	hup, changes, done := make(chan os.Signal, 1), make(chan struct{}, 10), make(chan error)
	go func() {
		done <- serverconfig.Watch(ctx, filepath.Join(dir, "tidemark.yaml"), loaded, hup, func() { changes <- struct{}{} })
	}()
	hup <- os.Interrupt // the watch has begun once this is answered
	<-changes
	link("..two", "..data")
	<-changes
	write(t, filepath.Join(dir, "new"), "mode: active")
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "tidemark.yaml")); err != nil {
		t.Fatal(err)
	}
	<-changes
	write(t, filepath.Join(dir, "unrelated"), "x")
	hup <- os.Interrupt
	<-changes
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(changes) > 0 {
		t.Error("a change without a change")
	}
}

// content is what a config's file is known by once it is loaded.
func content(t *testing.T, file string) serverconfig.Digest {
	t.Helper()
	l, err := serverconfig.Load(serverconfig.Sources{File: file, Filters: known()})
	if err != nil {
		t.Fatal(err)
	}
	return l.Content
}

// A file that becomes another between its loading and its being watched has changed: an operator who turns a route off just then
// must not wait for the next change.
func TestWatchSeesWhatChangedBefore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidemark.yaml")
	write(t, file, "mode: active")
	loaded := content(t, file)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, change := range []func(){
		func() { write(t, file, "mode: off") },
		func() {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		change()
		changed, done := make(chan struct{}), make(chan error)
		watching, stop := context.WithCancel(ctx)
		go func() {
			done <- serverconfig.Watch(watching, file, loaded, nil, func() { close(changed) })
		}()
		<-changed
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestWatchWithoutDirectory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := serverconfig.Watch(ctx, "/nowhere/at/all.yaml", serverconfig.Digest{}, nil, func() {}); err == nil {
		t.Error("a directory that is not there is watched")
	}
}
