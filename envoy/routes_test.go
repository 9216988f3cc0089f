package envoy_test

import (
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
)

// serverConfig is what the routes without a config of their own run with, and what one of them names.
const serverConfig = `
default: {pipeline: [readlifecycle], components: {readlifecycle: {min_tokens: 1000}}}
pipelines:
  large: {pipeline: [readlifecycle], components: {readlifecycle: {min_tokens: 2500}}}
`

// outdated are reads of about 160, 260, 400, 1600, 3300 and 6500 tokens, and edits that outdate them.
func outdated(a *agent, round string) {
	for _, f := range []use{
		reads("a"+round, 5), reads("b"+round, 8), reads("c"+round, 12), reads("d"+round, 50), reads("e"+round, 100), reads("f"+round, 200),
	} {
		a.step(f)
	}
	a.step(edits("a"+round), edits("b"+round), edits("c"+round), edits("d"+round), edits("e"+round), edits("f"+round))
}

// TestRoutes plays the same session on routes of one listener, each of which has another min_tokens and tells it in another way.
// How many reads are shortened says which config was in use.
func TestRoutes(t *testing.T) {
	p := newProduct(t, serverConfig)
	for name, c := range map[string]struct {
		path, pipeline string
		want           int // reads that are large enough
	}{
		"set_metadata":                         {"/v1/messages", "readlifecycle", 6},
		"set_metadata of another route":        {"/b/v1/messages", "readlifecycle+readmaturation", 5},
		"route metadata by initial_metadata":   {"/metadata/v1/messages", "readlifecycle", 4},
		"the server's default":                 {"/some/v1/messages", "default", 3},
		"the server's default by its name":     {"/grpc/v1/messages", "default", 3},
		"a name in grpc_initial_metadata":      {"/named/v1/messages", "large", 2},
		"a config in grpc_initial_metadata":    {"/json/v1/messages", "default", 1},
		"shadow":                               {"/shadow/v1/messages", "readlifecycle", 0},
		"disabled: tidemark never hears of it": {"/off/v1/messages", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent("router")
			outdated(a, "")
			send := func() *exchange {
				r := a.request(c.path)
				r.key = "sk" + c.path // another tenant each
				return p.send(t, r).ok(t)
			}
			send()
			a.pause(cold)
			a.step(runs(5))
			x := send()
			line := p.line(t, x)
			if got, _ := line["pipeline"].(string); len(x.shortened) != c.want || got != c.pipeline {
				t.Errorf("%d reads are shortened, want %d; the access log says %v", len(x.shortened), c.want, line)
			}
			if name == "shadow" && (line["mode"] != "shadow" || line["shadow_outcome"] != "moved") {
				t.Errorf("the access log says %v", line)
			}
		})
	}
}

// TestBadConfigPushed: an Envoy whose route has a key that tidemark does not know replays what is in force and decides nothing
// new. Once the config is mended, it does.
func TestBadConfigPushed(t *testing.T) {
	p := newProduct(t, "")
	good := p.Env
	a := newAgent("pushed")
	outdated(a, "-1")
	p.send(t, a.request("/v1/messages")).ok(t)
	a.pause(cold)
	a.step(runs(5))
	before := p.send(t, a.request("/v1/messages")).ok(t)
	if len(before.shortened) != 6 {
		t.Fatalf("%d reads are shortened", len(before.shortened))
	}

	p.through(t, func(config string) string {
		return strings.Replace(config, "pipeline: [readlifecycle]\n", "pipeline: [readlifecycle]\n                        colour: red\n", 1)
	})
	outdated(a, "-2")
	for range 2 { // the second finds the provider cold
		x := p.send(t, a.request("/v1/messages")).ok(t).keeps(t, before.shortened)
		p.expect(t, x, "gate", "bad_config", "outcome", "replayed")
		if len(x.shortened) != 6 {
			t.Errorf("%d reads are shortened", len(x.shortened))
		}
		a.pause(cold)
		a.step(runs(5))
	}
	if n := p.tidemark.MetricWhen(t, "tidemark_config_route_errors_total", envoytest.Is(1)); n != 1 {
		t.Errorf("%.0f distinct configs were counted as bad", n)
	}

	p.Env = good
	x := p.send(t, a.request("/v1/messages")).ok(t).keeps(t, before.shortened)
	p.expect(t, x, "outcome", "moved")
	if len(x.shortened) != 12 {
		t.Errorf("%d reads are shortened", len(x.shortened))
	}
}
