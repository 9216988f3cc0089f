package envoy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

// warmRoute is a route on which covered bytes may change, with a tap.
const warmRoute = `
              - {name: warm, match: {prefix: /warm/}, route: {cluster: upstream, timeout: 0s}, typed_per_filter_config: {
                  envoy.filters.http.set_metadata: {
                    "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config,
                    metadata: [{metadata_namespace: tidemark, value: {pipeline: [readlifecycle], ttl: keep, warm: true, horizon: 400, min_gain_frac: 0.001,
                      components: {readlifecycle: {stale_at_depth: true}}}}]},
                  envoy.filters.http.ai_protocol_manager: {
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ai_protocol_manager.v3.AiProtocolManagerPerRoute,
                    response: {llm_protocol: ANTHROPIC_MESSAGES}}}}
`

func withWarmRoute(config string) string {
	const first = "              - name: messages\n"
	return strings.Replace(config, first, strings.TrimPrefix(warmRoute, "\n")+first, 1)
}

// event file of a server, and what reads it.
func eventsOf(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, e)
	}
	return all
}

// injury is one thing that happens to a session's cache.
type injury struct {
	name, cause string
	filter      string
	do          func(p *product, a *agent, turn func())
	path        string
	message     float64 // of client_history
}

var injuries = []injury{
	{name: "a pause", cause: "ttl", do: func(_ *product, a *agent, _ func()) { a.pause(20 * time.Minute); a.human("Go on.") }},
	{name: "another system prompt", cause: "client_system", do: func(_ *product, a *agent, _ func()) {
		a.c.System = []gen.Block{gen.Text(strings.Repeat("You are quite another agent. ", 900))}
		a.human("Go on.")
	}},
	{name: "another tool", cause: "client_tools", do: func(_ *product, a *agent, _ func()) {
		a.c.Tools = append(a.c.Tools, gen.Block{Members: gen.Object{{Key: "name", Value: "Glob"}, {Key: "input_schema", Value: gen.Object{{Key: "type", Value: "object"}}}}})
		a.human("Go on.")
	}},
	{name: "another model", cause: "client_model", do: func(_ *product, a *agent, _ func()) { a.c.Model = "claude-sonnet-4-5"; a.human("Go on.") }},
	{name: "another past", cause: "client_history", message: 2, do: func(_ *product, a *agent, _ func()) {
		a.c.Messages[2].Blocks[0].Set("content", "What it said was edited.")
		a.human("Go on.")
	}},
	{name: "the provider forgets", cause: "provider", do: func(p *product, a *agent, _ func()) {
		p.provider.sim = simprovider.New(simprovider.Options{})
		a.human("Go on.")
	}},
	{name: "our own move", cause: "tidemark", filter: "readlifecycle", path: "/warm/v1/messages", do: func(_ *product, a *agent, turn func()) {
		a.step(reads("late.go", 150), runs(100))
		turn()
		a.step(edits("late.go"))
		turn()
		a.human("Go on.")
	}},
}

// TestLossCauses injures the cache of one session through a real Envoy in every way, one after the other: each loss is told under its one
// cause, on every surface, and on the turns between nothing is.
func TestLossCauses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	p := &product{provider: newProvider()}
	p.startWith(t, fmt.Sprintf("events: {file: %q}\ndefault: {ttl: keep}\n", file), withWarmRoute)
	a := newAgent("injured")
	turn := func(path string) *exchange {
		t.Helper()
		return p.send(t, a.request(path)).ok(t)
	}
	const plain = metadataPath
	p.expect(t, turn(plain), "loss_cause", "first")
	for i := range 3 {
		a.step(reads(fmt.Sprintf("file%d.go", i), 150))
		p.expect(t, turn(plain), "loss_cause", nil)
	}
	a.step(edits("file0.go"), edits("file1.go"))
	p.expect(t, turn(plain), "loss_cause", nil)

	lost := map[string]float64{}
	for _, i := range injuries {
		i.do(p, a, func() { t.Helper(); p.expect(t, turn(plain), "loss_cause", nil) })
		path := i.path
		if path == "" {
			path = plain
		}
		x := turn(path)
		line := p.line(t, x)
		if line["loss_cause"] != i.cause {
			t.Errorf("%s: loss_cause %v, want %s, in %v", i.name, line["loss_cause"], i.cause, line)
		}
		n, _ := line["lost_tokens"].(float64)
		if n < 1000 || int(n) > x.prompt {
			t.Errorf("%s: %v tokens lost of a prompt of %d", i.name, line["lost_tokens"], x.prompt)
		}
		lost[i.cause] += n
		for range 2 {
			a.step(runs(2))
			p.expect(t, turn(plain), "loss_cause", nil)
		}
	}

	p.tidemark.Stop(t)
	counts, told := map[string]int{}, map[string]float64{}
	for _, e := range eventsOf(t, file) {
		if e["event"] != event.NameLoss {
			continue
		}
		cause, _ := e["cause"].(string)
		tokens, _ := e["lost_tokens"].(float64)
		counts[cause]++
		told[cause] += tokens
		if filter, _ := e["filter"].(string); cause == "tidemark" && filter != "readlifecycle" {
			t.Errorf("the move was %q's", filter)
		}
		if message, _ := e["message"].(float64); cause == "client_history" && message != 2 {
			t.Errorf("the past changed from message %v on", message)
		}
	}
	for _, i := range injuries {
		if counts[i.cause] != 1 || told[i.cause] != lost[i.cause] {
			t.Errorf("%s: %d events of %v tokens under %s, the access log says %v", i.name, counts[i.cause], told[i.cause], i.cause, lost[i.cause])
		}
	}
	if counts["first"] != 1 || len(counts) != len(injuries)+1 {
		t.Errorf("causes %v", counts)
	}
}
