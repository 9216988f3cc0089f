// Package serverconfig is the config of the tidemark server: one YAML file, environment variables, flags.
//
// Of one key the flag counts before the environment, that before the file, that before the default; [Loaded] knows which
// it was. [Load] is strict: whatever is unknown or of a wrong type is an error that names the place (file:line:column,
// variable or flag) and what is accepted. Route configs in the file are compiled by package routeconfig.
//
// A running server loads again when [Watch] says so. Load does not change what it returned before, so the last good config
// stays in use until a new one is there.
package serverconfig

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Memory is the state key's value for a store that is lost with the process.
const Memory = "memory:"

// Config are the server's keys.
type Config struct {
	Listen       string                    `config:"listen" doc:"address of the ext_proc service: host:port or unix:path"`
	Admin        string                    `config:"admin" doc:"address of /metrics, /livez, /readyz and /config: host:port"`
	State        string                    `config:"state" doc:"directory of the state store, or memory: for a store that is lost with the process"`
	Log          Log                       `config:"log"`
	Compress     Compress                  `config:"compress"`
	Deadline     time.Duration             `config:"deadline" doc:"time for one body; keep it below message_timeout of Envoy's ext_proc filter"`
	MaxBodyBytes int                       `config:"max_body_bytes" doc:"larger bodies pass untouched; keep it at or above the buffer limit of Envoy's routes"`
	DrainDelay   time.Duration             `config:"drain_delay" doc:"time between the signal to stop, when health turns to NOT_SERVING, and the end of accepting streams"`
	DrainTimeout time.Duration             `config:"drain_timeout" doc:"time for open streams to end after that"`
	Mode         pipeline.Mode             `config:"mode" doc:"active, shadow (only meter what active would do) or off (not even replay); routes can only narrow it"`
	Default      map[string]any            `config:"default" doc:"route config of routes that say nothing"`
	Pipelines    map[string]map[string]any `config:"pipelines" doc:"route configs by name, for routes that give a name; one of a preset's name takes its place"`
	Prices       []cache.Override          `config:"prices" doc:"what is known better of models than the built-in table of prices says: a list, by model"`
}

// Log are the keys of the log.
type Log struct {
	Level  string `config:"level" doc:"debug, info, warn or error"`
	Format string `config:"format" doc:"text or json"`
}

// Compress are the keys of the second door, for gateways that call no external processor.
type Compress struct {
	Listen    string `config:"listen" doc:"address of POST /v1/compress (docs/compress.md): host:port or unix:path; empty: there is none. Without token_file the host must be localhost or a loopback address"`
	TokenFile string `config:"token_file" doc:"file with the bearer token that requests to it must have"`
}

// Defaults returns the config of a server that is given none. The caller owns it.
func Defaults() Config {
	return Config{
		Listen:       ":9002",
		Admin:        ":9003",
		State:        "tidemark-state",
		Log:          Log{Level: "info", Format: observe.LogText},
		Deadline:     150 * time.Millisecond, // Envoy's default message_timeout is 200 ms
		MaxBodyBytes: 32 << 20,               // the largest request that providers accept
		DrainDelay:   5 * time.Second,        // two health checks of Envoy's usual interval
		DrainTimeout: 20 * time.Second,       // with the delay below the 30 s that Kubernetes waits by default
		Default:      routeconfig.BuiltIn(),
	}
}

// SlogLevel is Log.Level as slog knows it.
func (l *Log) SlogLevel() slog.Level {
	var v slog.Level
	_ = v.UnmarshalText([]byte(l.Level)) // validated
	return v
}

// validate checks values that have the right type.
func (c *Config) validate() (problems routeconfig.Problems) {
	add := func(ok bool, text string, path ...string) {
		if !ok {
			problems = append(problems, &routeconfig.Problem{Path: path, Text: text})
		}
	}
	add(isListener(c.Listen), "must be host:port or unix:path", "listen")
	add(c.Compress.Listen == "" || isListener(c.Compress.Listen), "must be host:port or unix:path", "compress", "listen")
	add(c.Compress.TokenFile != "" || !isListener(c.Compress.Listen) || isLocal(c.Compress.Listen), "others could reach it: without token_file it must be a loopback address or unix:path", "compress", "listen")
	add(isAddress(c.Admin), "must be host:port", "admin")
	add(c.State != "", "must be a directory or "+Memory, "state")
	add(c.Deadline > 0, "must be above 0", "deadline")
	add(c.DrainDelay >= 0, "must not be negative", "drain_delay")
	add(c.DrainTimeout >= 0, "must not be negative", "drain_timeout")
	add(c.MaxBodyBytes > 0 && c.MaxBodyBytes <= transcript.MaxBytes, fmt.Sprintf("must be from 1 to %d", transcript.MaxBytes), "max_body_bytes")
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		problems = append(problems, &routeconfig.Problem{Path: []string{"log", "level"}, Text: "not one of the known words", Accepted: []string{"debug", "info", "warn", "error"}})
	}
	switch c.Log.Format {
	case observe.LogText, observe.LogJSON:
	default:
		problems = append(problems, &routeconfig.Problem{Path: []string{"log", "format"}, Text: "not one of the known words", Accepted: []string{observe.LogText, observe.LogJSON}})
	}
	return problems
}

func isListener(s string) bool {
	return isAddress(s) || strings.HasPrefix(s, "unix:") && len(s) > len("unix:")
}

// isLocal reports whether nobody on another machine reaches a listener.
func isLocal(s string) bool {
	if strings.HasPrefix(s, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(s)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// Redacted is the config as maps and scalars, by key, without credentials.
func (c *Config) Redacted() map[string]any {
	d := *c
	if u, err := url.Parse(d.State); err == nil && u.User != nil {
		d.State = u.Redacted()
	}
	return routeconfig.Plain(&d)
}

// NeedsRestart names the keys that differ between two configs and that a running server does not take over.
func NeedsRestart(running, loaded *Config) (keys []string) {
	a, b := scalars(running), scalars(loaded)
	for i := range a {
		if a[i].Default != b[i].Default && a[i].Name != "mode" && a[i].Name != "log.level" {
			keys = append(keys, a[i].Name)
		}
	}
	if !reflect.DeepEqual(running.Prices, loaded.Prices) {
		keys = append(keys, "prices")
	}
	return keys
}

// InUse is what a server that was started with running has of l: keys that need a restart keep their values and origins.
func (l *Loaded) InUse(running *Loaded) *Loaded {
	u := *l
	u.Config, u.PriceTable, u.Origins = running.Config, running.PriceTable, maps.Clone(l.Origins)
	u.Mode, u.Log.Level, u.Default, u.Pipelines = l.Mode, l.Log.Level, l.Default, l.Pipelines
	for _, key := range NeedsRestart(&running.Config, &l.Config) {
		u.Origins[key] = running.Origins[key]
	}
	u.Hash = hash(&u.Config)
	return &u
}

// scalars describes the keys that have one value each, with that value.
func scalars(c *Config) (keys []routeconfig.Key) {
	for _, k := range routeconfig.Describe(c) {
		if k.Name != "default" && k.Name != "pipelines" && k.Name != "prices" {
			keys = append(keys, k)
		}
	}
	return keys
}
