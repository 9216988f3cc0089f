package serverconfig

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// maxRate is far above what one server answers, in requests per second.
const maxRate = 1e6

// minEventBytes keeps a file of events from being renamed every few lines.
const minEventBytes = 64 << 10

// checks collects problems.
type checks struct{ problems routeconfig.Problems }

// that notes a problem unless it is so.
func (k *checks) that(ok bool, text string, path ...string) {
	if !ok {
		k.problems = append(k.problems, &routeconfig.Problem{Path: path, Text: text})
	}
}

// word notes a problem unless v is one of the accepted words.
func (k *checks) word(v string, accepted []string, path ...string) {
	if !slices.Contains(accepted, v) {
		k.problems = append(k.problems, &routeconfig.Problem{Path: path, Text: "not one of the known words", Accepted: accepted})
	}
}

// validate checks values that have the right type.
func (c *Config) validate() routeconfig.Problems {
	var k checks
	k.that(isListener(c.Listen), "must be host:port or unix:path", "listen")
	k.tls(&c.TLS, "tls")
	k.that(isListener(c.Admin.Listen), "must be host:port or unix:path", "admin", "listen")
	k.tls(&c.Admin.TLS, "admin", "tls")
	k.that(!c.Admin.Content || c.Admin.TokenFile != "" || c.Admin.TLS.Mutual(), "needs token_file or mutual TLS", "admin", "content")
	k.door(c.Restore.Listen, c.Restore.TokenFile, &c.Restore.TLS, "restore")
	k.that(c.Restore.Rate > 0 && c.Restore.Rate <= maxRate, fmt.Sprintf("must be above 0, and at most %d", int(maxRate)), "restore", "rate")
	k.tenant(c.Restore.Tenant, "restore", "tenant")
	k.door(c.Compress.Listen, c.Compress.TokenFile, &c.Compress.TLS, "compress")
	k.apart(c)
	k.that(c.State != "", "must be a directory or "+Memory, "state")
	k.that(c.MaxOriginals >= 0, "must not be negative", "max_original_bytes")
	k.that(c.Deadline > 0, "must be above 0", "deadline")
	k.that(c.DrainDelay >= 0, "must not be negative", "drain_delay")
	k.that(c.DrainTimeout >= 0, "must not be negative", "drain_timeout")
	k.that(c.MaxBodyBytes > 0 && c.MaxBodyBytes <= transcript.MaxBytes, fmt.Sprintf("must be from 1 to %d", transcript.MaxBytes), "max_body_bytes")
	for i, name := range c.OffRoutes {
		k.that(name != "", "must be the name of a route", "off_routes", fmt.Sprintf("[%d]", i))
	}
	k.word(c.Log.Level, []string{"debug", "info", "warn", "error"}, "log", "level")
	k.word(c.Log.Format, []string{observe.LogText, observe.LogJSON}, "log", "format")
	k.that(c.Events.MaxBytes >= minEventBytes, fmt.Sprintf("must be at least %d", minEventBytes), "events", "max_bytes")
	k.that(c.Events.Keep >= 0, "must not be negative", "events", "keep")
	k.word(c.OTel.Semconv, []string{SemconvV01, SemconvLegacy, SemconvOff}, "otel", "semconv")
	k.word(c.OTel.Usage, []string{SemconvV01, SemconvLegacy, SemconvOff}, "otel", "usage")
	return k.problems
}

// door checks a listener that may be absent, and that asks for a credential where others can reach it.
func (k *checks) door(listen, tokenFile string, t *access.TLS, section string) {
	k.that(listen == "" || isListener(listen), "must be host:port or unix:path", section, "listen")
	k.that(tokenFile != "" || t.Mutual() || !isListener(listen) || access.Local(listen),
		"others could reach it: without token_file or mutual TLS it must be a loopback address or unix:path", section, "listen")
	k.tls(t, section, "tls")
}

// apart checks that no two listeners have the same address. With port 0 each gets one of its own.
func (k *checks) apart(c *Config) {
	seen := map[string]bool{c.Listen: true}
	for _, l := range []struct{ listen, section string }{{c.Admin.Listen, "admin"}, {c.Restore.Listen, "restore"}, {c.Compress.Listen, "compress"}} {
		k.that(!seen[l.listen] || strings.HasSuffix(l.listen, ":0"), "another listener has this address", l.section, "listen")
		seen[l.listen] = l.listen != ""
	}
}

// tls checks that the files are there that belong together.
func (k *checks) tls(t *access.TLS, path ...string) {
	under := func(key string) []string { return append(slices.Clip(path), key) }
	k.that(t.CertFile == "" || t.KeyFile != "", "must be there with cert_file", under("key_file")...)
	k.that(t.CertFile != "" || t.KeyFile == "" && t.ClientCAFile == "", "must be there with key_file and client_ca_file", under("cert_file")...)
}

// tenant checks a value of restore.tenant.
func (k *checks) tenant(v string, path ...string) {
	if name, ok := strings.CutPrefix(v, TenantByHeader); ok {
		k.that(httpguts.ValidHeaderFieldName(name), "must name a header", path...)
		k.that(!strings.EqualFold(name, access.TokenHeader), "this header holds the listener's own token, and says nothing of tenants", path...)
		return
	}
	k.word(v, []string{TenantByID, TenantByCredential, TenantByHeader + "NAME"}, path...)
}

func isListener(s string) bool {
	return isAddress(s) || strings.HasPrefix(s, "unix:") && len(s) > len("unix:")
}

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
