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
	"log/slog"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// Memory is the state key's value for a store that is lost with the process.
const Memory = "memory:"

// Config are the server's keys.
type Config struct {
	Listen       string                    `config:"listen" doc:"address of the ext_proc service: host:port or unix:path. Whoever reaches it can speak as Envoy, for any tenant: let it be a socket, an address in a network of its own, or behind mutual TLS"`
	TLS          access.TLS                `config:"tls"`
	Admin        Admin                     `config:"admin"`
	Restore      Restore                   `config:"restore"`
	Compress     Compress                  `config:"compress"`
	State        string                    `config:"state" doc:"directory of the state store, or memory: for a store that is lost with the process"`
	SecretFile   string                    `config:"secret_file" doc:"file with the server's secret, at least 32 bytes of anything, the same for all replicas; empty: made at the first start and kept in the state store. A store that has another one does not open. Not for memory:"`
	KeyFile      string                    `config:"encryption_key_file" doc:"file with the keys that state is encrypted by, one per line, 32 bytes in hex or base64 (openssl rand -hex 32). The first is in use, the others are older ones that are still read: to rotate, put a new line on top and restart. Empty: state is not encrypted. What was written without keys stays readable until the store merges it. Not for memory:"`
	MaxOriginals int                       `config:"max_original_bytes" doc:"bytes of originals that are kept per tenant; beyond that the least recently used give way, and where all are in use nothing more is left out; 0: no cap"`
	Log          Log                       `config:"log"`
	Events       Events                    `config:"events"`
	OTel         OTel                      `config:"otel"`
	Deadline     time.Duration             `config:"deadline" doc:"time for one body; keep it below message_timeout of Envoy's ext_proc filter; the end of an answer waits a 30th part of it at most, so that access logs say what was billed"`
	MaxBodyBytes int                       `config:"max_body_bytes" doc:"larger bodies pass untouched; keep it at or above the buffer limit of Envoy's routes"`
	DrainDelay   time.Duration             `config:"drain_delay" doc:"time between the signal to stop, when health turns to NOT_SERVING, and the end of accepting streams"`
	DrainTimeout time.Duration             `config:"drain_timeout" doc:"time for open streams to end after that"`
	Mode         pipeline.Mode             `config:"mode" doc:"active, shadow (only meter what active would do) or off (not even replay); routes can only narrow it"`
	OffRoutes    []string                  `config:"off_routes" doc:"names of routes, as Envoy calls them (attribute xds.route_name), on which mode is off"`
	Default      map[string]any            `config:"default" doc:"route config of routes that say nothing"`
	Pipelines    map[string]map[string]any `config:"pipelines" doc:"route configs by name, for routes that give a name; one of a preset's name takes its place"`
	Prices       []cache.Override          `config:"prices" doc:"what is known better of models than the built-in table of prices says: a list, by model"`
}

// Log are the keys of the log.
type Log struct {
	Level  string `config:"level" doc:"debug, info, warn or error"`
	Format string `config:"format" doc:"text or json"`
}

// Admin are the keys of the listener for operators and their tools.
type Admin struct {
	Listen    string     `config:"listen" doc:"address of /metrics, /livez, /readyz, /config, and of /v1/ for operators (docs/restore.md): host:port or unix:path. /v1/ is there only if the address is local (loopback or a socket), or with token_file or mutual TLS"`
	TokenFile string     `config:"token_file" doc:"file with bearer tokens, one per line (openssl rand -hex 32); requests must bear one of them, but for /livez, /healthz and /readyz. It is read again when it changes: to rotate, add a line, later take the other away"`
	Content   bool       `config:"content" doc:"whether the page may show what was left out of requests, and the markers in its place. Needs token_file or mutual TLS"`
	TLS       access.TLS `config:"tls"`
}

// Events are the keys of the file of events.
type Events struct {
	File     string `config:"file" doc:"file that events are appended to, as JSON lines (docs/events.md); empty: none. Its directory is made if it is not there"`
	MaxBytes int    `config:"max_bytes" doc:"size beyond which the file is renamed, with the time in its name, and a new one begun"`
	Keep     int    `config:"keep" doc:"renamed files that are kept, the newest ones"`
	Paths    bool   `config:"paths" doc:"whether events hold the paths of files in clear; else only their hashes"`
}

// OTel are the keys of OpenTelemetry. Everything else is said by the OTEL_* variables, and nothing is exported unless they say so.
type OTel struct {
	Semconv string `config:"semconv" doc:"names of gen_ai attributes on spans: v0.1 (of the GenAI conventions' own releases), legacy (of semantic conventions up to 1.41) or off (none). What is exported, and where to, the OTEL_* variables say (docs/tracing.md)"`
	Usage   string `config:"usage" doc:"counters of tokens as gen_ai metrics: v0.1, legacy or off. Leave it off where the gateway counts them too"`
}

// Restore are the keys of the listener on which models and their clients get back what was left out.
type Restore struct {
	Listen    string     `config:"listen" doc:"address of /v1/originals and of the MCP server (docs/restore.md): host:port or unix:path; empty: there is none. An address that is not local needs token_file or mutual TLS"`
	TokenFile string     `config:"token_file" doc:"file with bearer tokens, one per line, as admin.token_file. X-Tidemark-Token may hold the token where Authorization is taken"`
	TLS       access.TLS `config:"tls"`
	Rate      float64    `config:"rate" doc:"requests per second of one client, by its address (those behind one proxy are one); twice as many may come at once, and 25 times as many from all"`
	Tenant    string     `config:"tenant" doc:"who may have an original: id (whoever has its id, which cannot be guessed), credential (whose request bears the credential of the tenant's LLM requests; rotating ones name no tenant), or header:NAME (by a header that the gateway sets, here and on LLM requests)"`
}

// Compress are the keys of the second door, for gateways that call no external processor.
type Compress struct {
	Listen    string     `config:"listen" doc:"address of POST /v1/compress (docs/compress.md): host:port or unix:path; empty: there is none. An address that is not local needs token_file or mutual TLS"`
	TokenFile string     `config:"token_file" doc:"file with bearer tokens, one per line, as admin.token_file"`
	TLS       access.TLS `config:"tls"`
}

// Values of the key restore.tenant.
const (
	TenantByID         = "id"
	TenantByCredential = "credential"
	TenantByHeader     = "header:" // and the header's name
)

// Values of the keys otel.semconv and otel.usage.
const (
	SemconvV01    = "v0.1"
	SemconvLegacy = "legacy"
	SemconvOff    = "off"
)

// Defaults returns the config of a server that is given none. The caller owns it.
func Defaults() Config {
	return Config{
		Listen:       ":9002",
		Admin:        Admin{Listen: "127.0.0.1:9003"},
		Restore:      Restore{Listen: "127.0.0.1:9004", Rate: 20, Tenant: TenantByID},
		State:        "tidemark-state",
		MaxOriginals: 1 << 30,
		Log:          Log{Level: "info", Format: observe.LogText},
		Events:       Events{MaxBytes: 100 << 20, Keep: 5},
		OTel:         OTel{Semconv: SemconvV01, Usage: SemconvOff},
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

// Redacted is the config as maps and scalars, by key, without credentials.
func (c *Config) Redacted() map[string]any {
	d := *c
	if u, err := url.Parse(d.State); err == nil && u.User != nil {
		d.State = u.Redacted()
	}
	return routeconfig.Plain(&d)
}

// live are the keys with one value each that a running server takes over.
var live = []string{"mode", "log.level"}

// NeedsRestart names the keys that differ between two configs and that a running server does not take over.
func NeedsRestart(running, loaded *Config) (keys []string) {
	a, b := scalars(running), scalars(loaded)
	for i := range a {
		if a[i].Default != b[i].Default && !slices.Contains(live, a[i].Name) {
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
	u.Mode, u.OffRoutes, u.Log.Level, u.Default, u.Pipelines = l.Mode, l.OffRoutes, l.Log.Level, l.Default, l.Pipelines
	for _, key := range NeedsRestart(&running.Config, &l.Config) {
		u.Origins[key] = running.Origins[key]
	}
	u.Hash = hash(&u.Config)
	return &u
}

// composite are the keys that are lists or mappings. They have no variable and no flag.
var composite = []string{"off_routes", "default", "pipelines", "prices"}

// scalars describes the keys that have one value each, with that value.
func scalars(c *Config) (keys []routeconfig.Key) {
	for _, k := range routeconfig.Describe(c) {
		if !slices.Contains(composite, k.Name) {
			keys = append(keys, k)
		}
	}
	return keys
}
