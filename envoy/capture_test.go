package envoy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simagent"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

// captured is a recorded request of a real client.
type captured struct {
	name, path string
	header     map[string]string
	body       []byte
}

// captures reads the recorded session of a client, and skips the test where there is none.
func captures(t *testing.T, client string) (all []captured) {
	t.Helper()
	shared := os.Getenv("TIDEMARK_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "shared")
	}
	heads, err := filepath.Glob(filepath.Join(shared, "captures", client, "*.head.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(heads) == 0 {
		t.Skipf("no captures of %s in %s: set TIDEMARK_SHARED", client, shared)
	}
	for _, name := range heads {
		var head struct {
			Path    string
			Headers map[string]string
		}
		raw, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(raw, &head)
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := os.ReadFile(strings.TrimSuffix(name, ".head.json") + ".body.json")
		if err != nil {
			t.Fatal(err)
		}
		for k := range head.Headers {
			if strings.EqualFold(k, "content-length") || strings.EqualFold(k, "x-api-key") {
				delete(head.Headers, k)
			}
		}
		all = append(all, captured{filepath.Base(name), head.Path, head.Headers, body})
	}
	return all
}

// TestCaptures plays recorded sessions of real clients turn by turn, in both body modes and over both protocols, with pauses in
// which the provider forgets. No request may be refused that is not refused anyway, those that tidemark does not change must
// arrive byte for byte, and none may read less from the cache than it would if it were sent straight to the provider.
func TestCaptures(t *testing.T) {
	p := newProduct(t, "")
	for _, client := range []string{"claude", "opencode"} {
		t.Run(client, func(t *testing.T) {
			all, moved := captures(t, client), 0
			for _, name := range slices.Sorted(maps.Keys(ways)) {
				t.Run(name, func(t *testing.T) { moved += p.replay(t, all, ways[name]) })
			}
			t.Logf("%d requests, %d moves", len(all)*len(ways), moved)
			if moved == 0 {
				t.Error("nothing was ever shortened: the session proves little")
			}
		})
	}
}

// replay plays a recorded session one way, and returns how many moves there were.
func (p *product) replay(t *testing.T, all []captured, w way) (moved int) {
	t.Helper()
	straight := simprovider.New(simprovider.Options{})
	var played []*exchange
	at, before := start, map[string]string{}
	for i, c := range all {
		at = at.Add(20 * time.Second)
		if i%4 == 3 {
			at = at.Add(cold)
		}
		path, _ := strings.CutSuffix(w.path, "/v1/messages")
		x := p.send(t, &request{path: path + c.path, key: "sk-" + t.Name(), at: at, body: c.body, http2: w.http2, header: c.header})
		plain := direct(straight, &c, at)
		if x.status != http.StatusOK && x.status != plain.Status {
			t.Errorf("%s: status %d, sent straight to the provider %d", c.name, x.status, plain.Status)
		}
		if n := plain.Prompt - plain.Usage.Read; x.uncached() > n {
			t.Errorf("%s: %d tokens were not read from the cache, sent straight %d", c.name, x.uncached(), n)
		}
		for call := range contents(c.body) {
			if was := before[call]; was != "" && x.shortened[call] != was {
				t.Errorf("%s: result %s does not stand as it did", c.name, call)
			}
		}
		maps.Copy(before, x.shortened)
		played = append(played, x)
	}
	for i, x := range played {
		line := p.Access(t, x.id)
		if len(x.shortened) == 0 {
			x.untouched(t)
		}
		if x.marked || x.proto != w.proto {
			t.Errorf("%s: breakpoints moved: %v, the provider saw %s", all[i].name, x.marked, x.proto)
		}
		if line["bytes_in"] != float64(len(x.sent)) || line["bytes_out"] != float64(len(x.out)) {
			t.Errorf("%s: %d bytes were sent and %d seen, the access log says %v", all[i].name, len(x.sent), len(x.out), line)
		}
		if line["move"] == "cold" {
			moved++
		}
	}
	return moved
}

// direct is what a provider sees of a recorded request that is sent to it directly.
func direct(sim *simprovider.Sim, c *captured, at time.Time) simprovider.Received {
	r := httptest.NewRequest(http.MethodPost, c.path, bytes.NewReader(c.body))
	for k, v := range c.header {
		r.Header.Set(k, v)
	}
	r.Header.Set("x-sim-now", at.Format(time.RFC3339Nano))
	sim.ServeHTTP(httptest.NewRecorder(), r)
	all := sim.Requests()
	return all[len(all)-1]
}

// TestRandomAgents plays random agents (forks, retries, subagents, side calls, compaction, parallel turns, thinking, kill -9 of
// tidemark) along one route, and past tidemark: no request is refused that is not refused anyway, none but those of a move reads
// less from the cache, and the bill is no higher.
func TestRandomAgents(t *testing.T) {
	p := newProduct(t, "")
	fixed := simagent.Features{
		"restart": true, "think": true, "fork": true, "retry": true, "side": true, // what is worth it over the wire
		"lose": false, "storefail": false, "cfgch": false, "shadow": false, "l1": false, "replicas": false, // what needs the engine at hand
		"failopen": false, "late": false, "slow": false, // an outage may cost, a slow answer takes real time
		"bound": false, "small": false, // where nothing may be changed, or nothing is worth it
	}
	moved, killed := 0, 0
	for i, name := range slices.Sorted(maps.Keys(ways)) {
		t.Run(name, func(t *testing.T) {
			events, on := simagent.Play(uint64(4+i), fixed, 30)
			t.Logf("%d events, features %v", len(events), on.On())
			g := &game{product: p, t: t, way: ways[name]}
			g.play(events)
			moved, killed = moved+g.moved, killed+g.killed
		})
	}
	if moved == 0 || killed == 0 {
		t.Errorf("%d moves, %d kills: the sessions prove nothing", moved, killed)
	}
	for _, metric := range []string{`tidemark_prefix_changes_total{declared="false"}`, "tidemark_panics_total", "tidemark_proof_failures_total"} {
		if n := p.tidemark.Metric(t, metric); n != 0 {
			t.Errorf("%s is %.0f", metric, n)
		}
	}
}

// game is a random agent that plays every request twice: through tidemark and past it.
type game struct {
	*product

	t             *testing.T
	way           way
	moved, killed int
}

func (g *game) play(events []simagent.Event) {
	g.t.Helper()
	var with, without []*exchange
	for i := range events {
		e := &events[i]
		if e.Kind == simagent.Restart {
			g.killed++
			g.tidemark.Kill(g.t)
			g.tidemark.SetClock(g.t, e.At)
			g.tidemark.Start(g.t)
			continue
		}
		with = append(with, g.event(e, g.way))
		without = append(without, g.event(e, way{path: "/off/v1/messages", http2: g.way.http2}))
	}
	var bill, plain float64
	for i, x := range with {
		y := without[i]
		bill, plain = bill+x.cost, plain+y.cost
		if x.status != y.status {
			g.t.Errorf("request %d: status %d, past tidemark %d", i, x.status, y.status)
		}
		if g.Access(g.t, x.id)["move"] == "cold" {
			g.moved++
		} else if x.uncached() > y.uncached() {
			g.t.Errorf("request %d: %d tokens were not read from the cache, past tidemark %d", i, x.uncached(), y.uncached())
		}
	}
	if g.t.Logf("bill %.0f, past tidemark %.0f", bill, plain); bill > plain*1.0001 {
		g.t.Error("it is dearer with tidemark")
	}
}

// event sends one request of a random agent along a route.
func (g *game) event(e *simagent.Event, w way) *exchange {
	g.t.Helper()
	r := &request{
		path: w.path, key: "sk-" + g.t.Name() + w.path, session: e.Session, at: e.At, body: e.Body, http2: w.http2, header: map[string]string{},
	}
	if e.Reply != "null" && e.Reply != "[]" {
		r.reply = e.Reply
	}
	if e.Count {
		r.path += "/count_tokens"
	}
	if e.Class != "" {
		r.header["x-claude-code-request-class"] = e.Class
	}
	if e.Bypass {
		r.header["x-tidemark-bypass"] = "true"
	}
	if e.Drop {
		r.header["anthropic-beta"] = "thinking-binding-controls-2026-08-01"
	}
	if e.Outcome == simagent.Failed {
		r.header["x-sim-status"] = "529"
	}
	return g.send(g.t, r)
}
