package envoy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/telemetry/otlptest"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// recipe is one of examples/access-logs: what it puts into the connection manager, and the clusters that it needs.
type recipe struct {
	AccessLog []any `yaml:"access_log"`
	Tracing   any   `yaml:"tracing"`
	Clusters  []any `yaml:"clusters"`
}

func readRecipe(t *testing.T, name string) recipe {
	t.Helper()
	b, err := os.ReadFile("../examples/access-logs/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var r recipe
	d, err := yaml.NewLoader(strings.NewReader(string(b)), yaml.WithKnownFields(), yaml.WithUniqueKeys())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Load(&r); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// into puts a recipe into a config: its access log in place of the one that is there or, if it is not a file's, beside it. Its
// collector is the one at addr.
func (r recipe) into(t *testing.T, addr string) func(string) string {
	t.Helper()
	return func(config string) string {
		var c map[string]any
		if err := yaml.Unmarshal([]byte(config), &c); err != nil {
			t.Fatal(err)
		}
		static := c["static_resources"].(map[string]any)
		chain := static["listeners"].([]any)[0].(map[string]any)["filter_chains"].([]any)[0].(map[string]any)
		hcm := chain["filters"].([]any)[0].(map[string]any)["typed_config"].(map[string]any)
		switch {
		case r.AccessLog != nil && r.Clusters == nil:
			hcm["access_log"] = r.AccessLog
		case r.AccessLog != nil:
			hcm["access_log"] = append(hcm["access_log"].([]any), r.AccessLog...)
		}
		if r.Tracing != nil {
			hcm["tracing"] = r.Tracing
			c["layered_runtime"] = map[string]any{"layers": []any{map[string]any{"name": "test", "static_layer": map[string]any{
				"tracing.opentelemetry.flush_interval_ms": 50, // and not 5 s
			}}}}
			hcm["request_id_extension"] = map[string]any{"typed_config": map[string]any{ // the ids of these tests are no UUIDs
				"@type": "type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig", "use_request_id_for_trace_sampling": false,
			}}
		}
		static["clusters"] = append(static["clusters"].([]any), r.Clusters...)
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if r.Clusters == nil {
			return string(b)
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		const there = `{"address":"otel-collector","port_value":4317}`
		if n := strings.Count(string(b), there); n != 1 {
			t.Fatalf("the collector stands %d times in the config", n)
		}
		return strings.Replace(string(b), there, fmt.Sprintf(`{"address":%q,"port_value":%s}`, host, port), 1)
	}
}

// logged is a request of the story and what became of it.
type logged struct {
	*exchange

	name    string
	path    string
	outcome string // empty: tidemark did not see it
	gate    string
}

// tell sends a request of the story.
func (p *product) tell(t *testing.T, name string, r *request, outcome, gate string) logged {
	t.Helper()
	x := &exchange{id: p.tick(t, r.at), sent: r.body}
	x.status, _ = p.post(t, r, x.id)
	p.receipt(t, x)
	return logged{x, name, r.path, outcome, gate}
}

// story is a session with all that an access log has to tell apart: requests that go as they came, one from which something is
// removed, one that asks to be left alone, one that is not tidemark's, and one that the provider refuses.
func (p *product) story(t *testing.T, a *agent) (all []logged) {
	t.Helper()
	const path = "/v1/messages"
	tell := func(name string, r *request, outcome, gate string) {
		t.Helper()
		all = append(all, p.tell(t, name, r, outcome, gate))
	}
	for _, uses := range [][]use{{runs(10)}, {reads("a.go", 100)}, {edits("a.go")}, {reads("b.go", 90)}} {
		a.step(uses...)
		tell("untouched", a.request(path), "identity", "")
	}
	a.pause(cold)
	a.human("Go on.")
	tell("removal", a.request(path), "moved", "")
	a.step(runs(8))
	tell("replay", a.request(path), "replayed", "")
	bypass := a.request(path)
	bypass.header = map[string]string{"x-tidemark-bypass": "true"}
	tell("bypass", bypass, "bypassed", "bypass")
	other := a.request(path)
	other.header = map[string]string{"content-type": "text/plain"}
	tell("not ours", other, "untouched", "content_type")
	refused := a.request(path)
	refused.body = []byte(`{"model":"claude-sonnet-4-6","max_tokens":10,"messages":[]}`)
	tell("refused", refused, "identity", "unparsed")
	return all
}

// checkStory compares the lines of the story. What a response was billed may be missing in them, all of it, where it is known later
// than a stream may be delayed: on a busy machine the story is told more than once until none is late.
func (p *product) checkStory(t *testing.T, line func(*logged) map[string]string) {
	t.Helper()
	late := 1
	for try := 0; try < 20 && late > 0; try++ {
		a := newAgent(fmt.Sprint("story ", try))
		a.at = a.at.Add(time.Duration(try) * 24 * time.Hour)
		late = 0
		for _, l := range p.story(t, a) {
			if !l.check(t, line(&l)) {
				late++
			}
		}
	}
	if late > 0 {
		t.Errorf("what was billed is missing in %d lines, however often one tries", late)
	}
}

// checkStoryToTheEnd is checkStory, and a request while tidemark is down.
func (p *product) checkStoryToTheEnd(t *testing.T, line func(*logged) map[string]string) {
	t.Helper()
	p.checkStory(t, line)
	p.tidemark.Kill(t)
	a := newAgent("afterwards")
	a.at = a.at.Add(21 * 24 * time.Hour)
	l := p.tell(t, "down", a.request("/v1/messages"), "", "")
	l.check(t, line(&l))
}

// newStory is an Envoy with a recipe.
func newStory(t *testing.T, r recipe, addr string) *product {
	t.Helper()
	p := newProduct(t, "")
	p.through(t, r.into(t, addr))
	return p
}

// what compares with a line of a log: text, as logs have it.
func (l *logged) want() map[string]string {
	w := map[string]string{"request_id": l.id, "method": http.MethodPost, "path": l.path, "status": strconv.Itoa(l.status)}
	if l.outcome == "" {
		return w
	}
	w["tidemark.outcome"], w["tidemark.gate"] = l.outcome, l.gate
	if l.outcome == "untouched" {
		return w
	}
	w["tidemark.format"], w["tidemark.mode"], w["tidemark.pipeline"] = "anthropic.messages", "active", "readlifecycle"
	w["tidemark.bytes_in"], w["tidemark.bytes_out"] = strconv.Itoa(len(l.sent)), strconv.Itoa(len(l.out))
	if l.billed() {
		w["tidemark.input_tokens"], w["tidemark.cache_read_tokens"] = strconv.Itoa(l.usage.Input), strconv.Itoa(l.usage.Read)
		w["tidemark.cache_write_tokens"], w["tidemark.output_tokens"] = strconv.Itoa(l.usage.Write5m+l.usage.Write1h), strconv.Itoa(l.usage.Output)
	}
	return w
}

// billed reports whether tidemark knows what the response was billed.
func (l *logged) billed() bool {
	return l.outcome != "" && l.outcome != "untouched" && l.status == http.StatusOK
}

// account are the names of what a response was billed.
var account = []string{"tidemark.input_tokens", "tidemark.cache_read_tokens", "tidemark.cache_write_tokens", "tidemark.output_tokens"}

// check compares a line with what happened, and reports whether what it was billed was known in time.
func (l *logged) check(t *testing.T, line map[string]string) (inTime bool) {
	t.Helper()
	late := l.billed() && !slices.ContainsFunc(account, func(name string) bool { return line[name] != "" })
	for name, want := range l.want() {
		if late && slices.Contains(account, name) {
			continue
		}
		if line[name] != want {
			t.Errorf("%s: %s is %q, want %q, in %v", l.name, name, line[name], want, line)
		}
	}
	number := func(name string) float64 {
		n, err := strconv.ParseFloat(line[name], 64)
		if err != nil {
			t.Errorf("%s: %s is %q", l.name, name, line[name])
		}
		return n
	}
	if l.outcome != "" && l.outcome != "untouched" && number("before_upstream_us") <= 0 { // others may have gone on before they were whole
		t.Errorf("%s: %s us before the request went on", l.name, line["before_upstream_us"])
	}
	if number("duration_ms") < 0 {
		t.Errorf("%s: it took %s ms", l.name, line["duration_ms"])
	}
	switch l.name {
	case "removal":
		if number("tidemark.tokens_removed") < 500 || line["tidemark.move"] != "cold" || line["tidemark.compacted"] != "true" || line["tidemark.verdicts"] != "readlifecycle:stale=1" {
			t.Errorf("a removal is told as %v", line)
		}
	case "replay", "bypass":
		if number("tidemark.tokens_replayed") < 500 || number("tidemark.tokens_removed") != 0 || line["tidemark.move"] != "" {
			t.Errorf("%s is told as %v", l.name, line)
		}
	case "down", "not ours":
		for name, v := range line {
			if strings.HasPrefix(name, "tidemark.") && name != "tidemark.outcome" && name != "tidemark.gate" && v != "" {
				t.Errorf("%s: %s is %q", l.name, name, v)
			}
		}
	}
	return !late
}

// words are the values of a line as text.
func words(line map[string]any) map[string]string {
	out := map[string]string{}
	for k, v := range line {
		if n, ok := v.(float64); ok {
			out[k] = strconv.FormatFloat(n, 'f', -1, 64)
		} else if s := fmt.Sprint(v); s != "-" {
			out[k] = s
		}
	}
	return out
}

func TestAccessLogJSON(t *testing.T) {
	p := newStory(t, readRecipe(t, "json"), "")
	p.checkStoryToTheEnd(t, func(l *logged) map[string]string {
		line := p.Access(t, l.id)
		for name, v := range line {
			if !isOfItsType(name, v) {
				t.Errorf("%s: %s is %v, a %T", l.name, name, v, v)
			}
		}
		return words(line)
	})
}

// isOfItsType reports whether a value is a number or a boolean where it should be, and not the text of one.
func isOfItsType(name string, v any) bool {
	_, isNumber := v.(float64)
	_, isBool := v.(bool)
	switch kind := kindOf(name); kind {
	case "number":
		return isNumber
	case "bool":
		return isBool
	}
	_, isText := v.(string)
	return isText || name == "status"
}

func kindOf(name string) string {
	switch {
	case name == "tidemark.compacted" || name == "tidemark.prefix_changed":
		return "bool"
	case strings.HasSuffix(name, "_tokens") || strings.Contains(name, "tokens_") || strings.HasSuffix(name, "_usd") || strings.HasSuffix(name, "_us") ||
		strings.HasSuffix(name, "_ms") || strings.Contains(name, "bytes_") || name == "tidemark.turn":
		return "number"
	}
	return "text"
}

func TestAccessLogText(t *testing.T) {
	p := newStory(t, readRecipe(t, "text"), "")
	form := regexp.MustCompile(`^\S+ (?P<request_id>\S+) "(?P<method>\S+) (?P<path>\S+)" (?P<status>\d+) (?P<duration_ms>\d+)ms ` +
		`before_upstream_us=(?P<before_upstream_us>\S+) tidemark=(?P<outcome>\S+) gate=(?P<gate>\S*) cache=(?P<cache>\S+) move=(?P<move>\S*) ` +
		`session=(?P<session>\S*) turn=(?P<turn>\S+) us=(?P<duration_us>\S+) bytes=(?P<bytes_in>[^>]+)->(?P<bytes_out>\S+) ` +
		`removed=(?P<tokens_removed>\S+) replayed=(?P<tokens_replayed>\S+) by=(?P<verdicts>\S*) compacted=(?P<compacted>\S+) billed: input=(?P<input_tokens>\S+) ` +
		`read=(?P<cache_read_tokens>\S+) written=(?P<cache_write_tokens>\S+) output=(?P<output_tokens>\S+) cost_usd=(?P<cost_usd>\S+) net_usd=(?P<net_usd>\S+) ` +
		`lost=(?P<lost_tokens>\S+) cause=(?P<loss_cause>\S+)\n$`)
	p.checkStoryToTheEnd(t, func(l *logged) map[string]string {
		p.Logged(t, l.id+" ")
		line := map[string]string{}
		for text := range strings.Lines(p.AccessLog()) {
			m := form.FindStringSubmatch(text)
			if m == nil {
				t.Fatalf("a line is not of its form: %q", text)
			}
			if m[1] != l.id {
				continue
			}
			for i, name := range form.SubexpNames() {
				if m[i] == "-" {
					continue
				}
				if i > 6 {
					name = "tidemark." + name
				}
				line[name] = m[i]
			}
		}
		want := l.want()
		for _, name := range []string{"tidemark.format", "tidemark.mode", "tidemark.pipeline"} { // the text has not got them
			if v, there := want[name]; there {
				line[name] = v
			}
		}
		return line
	})
}

func TestAccessLogOTLP(t *testing.T) {
	c := otlptest.Start(t)
	p := newStory(t, readRecipe(t, "otlp"), c.Addr)
	p.checkStoryToTheEnd(t, func(l *logged) map[string]string {
		record := c.Logs(t, 1, func(r otlptest.Log) bool { return r.Attributes()["request_id"] == l.id })[0]
		if body, want := record.GetBody().GetStringValue(), fmt.Sprintf("POST %s %d", l.path, l.status); body != want {
			t.Errorf("%s: the body is %q, want %q", l.name, body, want)
		}
		if record.Resource["service.name"] != "envoy" || time.Since(time.Unix(0, int64(record.GetTimeUnixNano()))) > time.Hour {
			t.Errorf("%s: the record is %v of %v", l.name, record, record.Resource)
		}
		return words(record.Attributes())
	})
}

// everyField is a result of a request and its response that has every field.
func everyField() map[string]bool {
	o := &pipeline.Outcome{
		Body: []byte("b"), Level: pipeline.Decided, Replays: 1, Move: &pipeline.Move{Kind: pipeline.Cold}, Session: "s", Branch: 1, Turn: 1,
		New: []pipeline.DecisionMade{{Filter: "coref", Tokens: 100}}, Shadow: &pipeline.Outcome{},
	}
	v := &pipeline.Observation{Usage: &pipeline.Usage{Input: 1}, Expected: 1, Loss: &pipeline.Loss{Cause: pipeline.CauseTTL, Filter: "coref"}}
	all := map[string]bool{"encoding": true} // which the server adds
	for k := range observe.Result(o, &pipeline.Request{Config: &pipeline.Config{}}).GetFields() {
		all[k] = true
	}
	for k := range observe.Account(v).GetFields() {
		all[k] = true
	}
	return all
}

// TestEveryFieldIsToldOf: the recipes that have all fields have them, and so has the page that says what they mean.
func TestEveryFieldIsToldOf(t *testing.T) {
	want := slices.Sorted(maps.Keys(everyField()))
	operator := regexp.MustCompile(`%DYNAMIC_METADATA\(tidemark\.result:(\w+)\)%`)
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
	for file, pattern := range map[string]*regexp.Regexp{
		"../examples/access-logs/json.yaml": operator, "../examples/access-logs/otlp.yaml": operator, "../docs/access-logs.md": row,
	} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range pattern.FindAllStringSubmatch(string(b), -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

// A field that no recipe knows would be read as absent for ever.
func TestRecipesNameFieldsThatAre(t *testing.T) {
	known := everyField()
	entries, err := os.ReadDir("../examples/access-logs")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`tidemark\.result:(\w+)\)|key: tidemark\.result, path: \[\{key: (\w+)\}\]`)
	n := 0
	for _, e := range entries {
		b, err := os.ReadFile("../examples/access-logs/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(b), -1) {
			if n++; !known[m[1]+m[2]] {
				t.Errorf("%s: there is no field %s", e.Name(), m[1]+m[2])
			}
		}
	}
	if n < 100 {
		t.Errorf("%d fields were looked at", n)
	}
}
