package breakpoint_test

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

var (
	hour  = breakpoint.Input{TTL: time.Hour}
	five  = breakpoint.Input{TTL: 5 * time.Minute}
	lower = breakpoint.Input{TTL: 5 * time.Minute, Lower: true}
	put   = breakpoint.Input{Place: true}
)

// raised: every marker of the outbound asks for an hour.
var raised = []placement{
	{
		name: "Claude Code's", body: "system: text* text*; user: text; assistant: call; user: result*", in: hour,
		want: "system.0 1h, system.1 1h, messages.2.content.0 1h", did: breakpoint.Plan{Raised: 3},
	},
	{
		name: "those that do not ask for it yet", body: "tools: tool*1h; system: text*1h; user: text*; assistant: call; user: result*", in: hour,
		want: "tools.0 1h, system.0 1h, messages.0.content.0 1h, messages.2.content.0 1h", did: breakpoint.Plan{Raised: 2},
	},
	{
		name: "none that asks for it already", body: "system: text*1h; user: text*1h", in: hour,
		want: "system.0 1h, messages.0.content.0 1h",
	},
	{
		name: "a marker inside a result", body: "system: text*; user: nested*", in: hour,
		want: "system.0 1h, messages.0.content.0.content.0 1h, messages.0.content.0 1h", did: breakpoint.Plan{Raised: 3},
	},
	{
		name: "an anchor, but not what was stripped", body: "system: text*; user: text; assistant: call; user: result*", in: hour,
		held: "messages.2.content.0", want: "system.0 1h, messages.1.content.0 1h", did: breakpoint.Plan{Stripped: 1, Anchored: 1, Raised: 2},
	},
	{
		name: "a bridge", body: "system: text*1h; user: text; assistant: text×19; user: text*", in: hour,
		frontier: "messages.0.content.0", want: "system.0 1h, messages.0.content.0 1h, messages.2.content.0 1h", did: breakpoint.Plan{Kept: 1, Raised: 2},
	},
	{
		name: "not with automatic caching", body: "top: *; system: text*; user: text", in: hour,
		want: "system.0 5m, 5m", did: breakpoint.Plan{Fixed: breakpoint.AutomaticTTL},
	},
	{
		name: "not beside a TTL that nobody knows", body: "system: text*24h; user: text*", in: hour,
		want: "system.0 24h, messages.0.content.0 5m", did: breakpoint.Plan{Fixed: breakpoint.UnknownTTL},
	},
	{
		name: "a bridge alone beside a TTL that nobody knows", body: "system: text*24h; user: text; assistant: text×19; user: text*", in: hour,
		frontier: "messages.0.content.0", want: "system.0 24h, messages.0.content.0 5m, messages.2.content.0 5m",
		did: breakpoint.Plan{Kept: 1, Fixed: breakpoint.UnknownTTL},
	},
	{
		name: "more markers than the provider accepts", body: "system: text* text* text*; user: text* text*", in: hour,
		want: "system.0 5m, system.1 5m, system.2 5m, messages.0.content.0 5m, messages.0.content.1 5m",
	},
	{name: "none where there is none", body: "system: text; user: text", in: hour},
}

// lowered: only where that was said.
var lowered = []placement{
	{
		name: "not unless told", body: "system: text*1h text*1h; user: text; assistant: call; user: result*", in: five,
		want: "system.0 1h, system.1 1h, messages.2.content.0 5m",
	},
	{
		name: "an anchor keeps the client's TTL unless told", body: "system: text*1h; user: text; assistant: call; user: result*1h", in: five,
		held: "messages.2.content.0", want: "system.0 1h, messages.1.content.0 1h", did: moved,
	},
	{
		name: "all of them", body: "system: text*1h text*1h; user: text; assistant: call; user: result*", in: lower,
		want: "system.0 5m, system.1 5m, messages.2.content.0 5m", did: breakpoint.Plan{Lowered: 2},
	},
	{
		name: "an anchor too", body: "system: text*1h; user: text; assistant: call; user: result*1h", in: lower,
		held: "messages.2.content.0", want: "system.0 5m, messages.1.content.0 5m", did: breakpoint.Plan{Stripped: 1, Anchored: 1, Lowered: 2},
	},
	{name: "none that asks for five minutes", body: "system: text*; user: text*", in: lower, want: "system.0 5m, messages.0.content.0 5m"},
	{
		name: "not with automatic caching", body: "top: *1h; system: text*1h; user: text", in: lower,
		want: "system.0 1h, 1h", did: breakpoint.Plan{Fixed: breakpoint.AutomaticTTL},
	},
	{
		name: "not beside a TTL that nobody knows", body: "system: text*24h; user: text*1h", in: lower,
		want: "system.0 24h, messages.0.content.0 1h", did: breakpoint.Plan{Fixed: breakpoint.UnknownTTL},
	},
}

var (
	one = breakpoint.Plan{Placed: 1}
	two = breakpoint.Plan{Placed: 2}
)

// placed: where the client sets no marker at all.
var placed = []placement{
	{
		name: "on system and on the tail", body: "tools: tool; system: text text; user: text; assistant: call; user: result text", in: put,
		want: "system.1 5m, messages.2.content.1 5m", did: two,
	},
	{
		name: "of the TTL asked for", body: "system: text; user: text", in: breakpoint.Input{Place: true, TTL: time.Hour},
		want: "system.0 1h, messages.0.content.0 1h", did: breakpoint.Plan{Placed: 2, Raised: 2},
	},
	{name: "of five minutes if told", body: "system: text; user: text", in: breakpoint.Input{Place: true, TTL: 5 * time.Minute}, want: "system.0 5m, messages.0.content.0 5m", did: two},
	{name: "not unless told", body: "system: text; user: text"},
	{name: "on tools without system", body: "tools: tool tool; user: text", in: put, want: "tools.1 5m, messages.0.content.0 5m", did: two},
	{name: "on tools if system is a string", body: "tools: tool; system: string; user: text", in: put, want: "tools.0 5m, messages.0.content.0 5m", did: two},
	{name: "on tools if system has no block for it", body: "tools: tool; system: bill empty; user: text", in: put, want: "tools.0 5m, messages.0.content.0 5m", did: two},
	{name: "before the attribution block", body: "system: text bill; user: text", in: put, want: "system.0 5m, messages.0.content.0 5m", did: two},
	{name: "before tools that are no part of the prompt", body: "tools: tool later; user: text", in: put, want: "tools.0 5m, messages.0.content.0 5m", did: two},
	{name: "on the tail alone", body: "system: string; user: text", in: put, want: "messages.0.content.0 5m", did: one},
	{name: "the client sets one", body: "system: text; user: text*", in: put, want: "messages.0.content.0 5m"},
	{name: "the client sets one inside a result", body: "system: text; user: nested text", in: put, want: "messages.0.content.0.content.0 5m"},
	{name: "automatic caching", body: "top: *; system: text; user: text", in: put, want: "5m"},
	{name: "a null marker is none", body: "top: *null; system: text null; user: text null", in: put, want: "system.0 5m, messages.0.content.0 5m", did: two},
	{name: "a tail that ends in unfit blocks", body: "user: text result empty think bare null search", in: put, want: "messages.0.content.1 5m", did: one},
	{name: "a string has no room", body: "system: text; user: text; assistant: text call; user: string", in: put, want: "system.0 5m, messages.1.content.1 5m", did: two},
	{name: "nor has the one before", body: "system: text; user: text; assistant: string; user: string", in: put, want: "system.0 5m, messages.0.content.0 5m", did: two},
	{name: "nothing but strings", body: "system: string; user: string; assistant: string; user: string", in: put},
	{name: "within reach", body: "user: text; assistant: empty×17; user: string", in: put, want: "messages.0.content.0 5m", did: one},
	{name: "out of reach", body: "user: text; assistant: empty×18; user: string", in: put},
	{name: "anywhere in the last message", body: "user: text; assistant: text; user: text empty×40", in: put, want: "messages.2.content.0 5m", did: one},
	{name: "never behind the user", body: "system: text; user: text; assistant: text", in: put, want: "system.0 5m", did: one},
	{name: "never on a system message at the end", body: "system: text; user: text; note: text", in: put, want: "system.0 5m", did: one},
	{name: "nor on one before a string", body: "system: text; user: text; note: text; user: string", in: put, want: "system.0 5m, messages.0.content.0 5m", did: two},
	{
		name: "before what is held", body: "system: text; user: text; assistant: text call; user: result text", in: put, held: "messages.2.content.0",
		want: "system.0 5m, messages.1.content.1 5m", did: two,
	},
	{
		name: "out of reach before what is held", body: "system: text; user: text; assistant: think×19; user: result text", in: put, held: "messages.2.content.0",
		want: "system.0 5m", did: one,
	},
	{
		name: "a bridge to where it was placed before", body: "system: text; user: text; assistant: text×19; user: text", in: put, frontier: "messages.0.content.0",
		want: "system.0 5m, messages.0.content.0 5m, messages.2.content.0 5m", did: breakpoint.Plan{Placed: 2, Kept: 1},
	},
}

// TestTTL shows each shape of a marker: what stands in the body, and what stands there when one hour, or five minutes at
// the most, is asked for. Where both are empty the body is left as it is.
func TestTTL(t *testing.T) {
	for _, c := range []struct{ marker, hour, five string }{
		{`{"type":"ephemeral"}`, `{"type":"ephemeral","ttl":"1h"}`, ""},
		{`{"type":"ephemeral","ttl":"5m"}`, `{"type":"ephemeral","ttl":"1h"}`, ""},
		{`{"type":"ephemeral","ttl":"1h"}`, "", `{"type":"ephemeral","ttl":"5m"}`},
		{`{"ttl":"1h","type":"ephemeral"}`, "", `{"ttl":"5m","type":"ephemeral"}`},
		{`{ "type" : "ephemeral" }`, `{ "type" : "ephemeral" ,"ttl":"1h"}`, ""},
		{"{\n\t\"type\": \"ephemeral\"\r\n}", "{\n\t\"type\": \"ephemeral\"\r\n,\"ttl\":\"1h\"}", ""},
		{"{ \"ttl\" :\t\"5m\" , \"type\":\"ephemeral\"}", "{ \"ttl\" :\t\"1h\" , \"type\":\"ephemeral\"}", ""},
		{`{"type":"ephemeral","scope":"global"}`, `{"type":"ephemeral","scope":"global","ttl":"1h"}`, ""},
		{`{"ttl":"1h","type":"ephemeral","scope":"global"}`, "", `{"ttl":"5m","type":"ephemeral","scope":"global"}`},
		{`{"type":"ephemeral","x":{"ttl":"1h"}}`, `{"type":"ephemeral","x":{"ttl":"1h"},"ttl":"1h"}`, ""},
		{`{}`, `{"ttl":"1h"}`, ""},
		{`{ }`, `{ "ttl":"1h"}`, ""},
		{`{"ttl":null,"type":"ephemeral"}`, `{"ttl":"1h","type":"ephemeral"}`, ""},
		{`{"ttl":"\u0035m"}`, `{"ttl":"1h"}`, ""},
		{`{"ttl":"1\u0068"}`, "", `{"ttl":"5m"}`},
		{`{"tt\u006c":"5m"}`, `{"tt\u006c":"1h"}`, ""},
		{`{"t\u0079pe":"\u0065phemeral"}`, `{"t\u0079pe":"\u0065phemeral","ttl":"1h"}`, ""},
		{`{"ttl":"24h"}`, "", ""},
		{`{"ttl":"1H"}`, "", ""},
		{`{"ttl":""}`, "", ""},
		{`{"ttl":3600}`, "", ""},
		{`{"ttl":["1h"]}`, "", ""},
		{`{"ttl":{"1h":"1h"}}`, "", ""},
		{`{"type":"persistent"}`, "", ""},
		{`{"type":"persistent","ttl":"5m"}`, "", ""},
		{`{"t\u0079pe":"persistent"}`, "", ""},
		{`{"type":null}`, "", ""},
		{`null`, "", ""},
	} {
		for _, around := range [][2]string{
			{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":`, `}]}]}`},
			{`{"messages":[{"role":"user","content":[{"cache_control": `, ` ,"type":"tool_result","tool_use_id":"a"}]}]}`},
			{`{"system":[{"cache_control":`, `,"type":"text","text":"a"}],"messages":[{"role":"user","content":"a"}]}`},
			{`{"messages":[{"role":"user","content":"a"}],"tools":[{"cache_control":`, `,"name":"a"}]}`},
			{`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"a","cache_control":`, `}]}]}]}`},
		} {
			body := around[0] + c.marker + around[1]
			for _, ask := range []struct {
				in   breakpoint.Input
				want string
			}{{hour, c.hour}, {lower, c.five}} {
				ask.in.Index, ask.in.Frontier = parse(t, []byte(body)), -1
				plan, err := breakpoint.Decide(&ask.in)
				if err != nil {
					t.Fatal(err)
				}
				want, changes := around[0]+ask.want+around[1], 1
				if ask.want == "" {
					want, changes = body, 0
				}
				if out := apply([]byte(body), plan.Edits); string(out) != want || plan.Raised+plan.Lowered != changes {
					t.Errorf("%s for %v: %d changes, %s", body, ask.in.TTL, plan.Raised+plan.Lowered, out)
				}
			}
		}
	}
	for _, twice := range []string{`{"ttl":"1h","ttl":"5m"}`, `{"ttl":"5m","\u0074tl":"5m"}`, `{"type":"ephemeral","type":"ephemeral"}`} {
		if _, err := transcript.Parse([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":`+twice+`}]}]}`), transcript.Anthropic); err == nil {
			t.Errorf("%s is read", twice)
		}
	}
}

// TestCanSetTTL: one marker that cannot be judged fixes all of a body.
func TestCanSetTTL(t *testing.T) {
	for _, c := range []struct {
		body string
		want breakpoint.TTLGate
	}{
		{`{"messages":[{"role":"user","content":"a"}]}`, breakpoint.FreeTTL},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"ttl":"1h"}}]}]}`, breakpoint.FreeTTL},
		{`{"messages":[{"role":"user","content":"a"}],"cache_control":{"type":"ephemeral"}}`, breakpoint.AutomaticTTL},
		{`{"messages":[{"role":"user","content":"a"}],"cache_control":null}`, breakpoint.FreeTTL},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"ttl":"2h"}},{"type":"text","text":"b","cache_control":{}}]}]}`, breakpoint.UnknownTTL},
		{`{"messages":[{"role":"user","content":[{"type":"document","source":{"content":[{"cache_control":{"type":"ephemeral"}}]}}]}]}`, breakpoint.UnknownTTL},
		{`{"messages":[{"role":"user","content":[{"type":"text","text":"a","citations":{"cache_control":{}}}]}]}`, breakpoint.UnknownTTL},
	} {
		if got := breakpoint.CanSetTTL(parse(t, []byte(c.body))); got != c.want {
			t.Errorf("%s: %d, want %d", c.body, got, c.want)
		}
	}
}

// TestReplacedTTL: a marker inside content that is replaced is gone, so its TTL is not changed either.
func TestReplacedTTL(t *testing.T) {
	ix := parse(t, write(t, "system: text*; user: nested; assistant: text; user: text*"))
	in := breakpoint.Input{Index: ix, Frontier: -1, Replaced: []int32{seq(t, ix, "messages.0.content.0")}, TTL: time.Hour}
	plan, err := breakpoint.Decide(&in)
	if err != nil || plan.Raised != 2 || len(plan.Edits) != 2 {
		t.Errorf("%+v (%v)", plan, err)
	}
}

// TestIsEdit: each lawful edit is accepted alone, and what is nearly one is not.
func TestIsEdit(t *testing.T) {
	const marker = `,"cache_control":{"type":"ephemeral"}`
	for _, c := range []struct {
		body, before, cut, text string // the edit puts text in the place of cut, which stands behind before
		want                    bool
	}{
		{"user: text*", `"text":"t"`, marker, "", true},
		{"user: text*", `"text":"t",`, marker[1:], "", false},
		{"user: text", `"text":"t"`, ``, marker, true},
		{"user: text", `"text":"t"`, ``, breakpoint.Text(time.Hour), true},
		{"user: text", `"text":"t"`, ``, `,"cache_control":{"type":"ephemeral","ttl":"5m"}`, false},
		{"user: text", `"text":"t"`, `}`, marker, false},
		{"user: text", `"text":"t`, `"`, marker, false},
		{"user: text*", `"text":"t"` + marker, ``, marker, false},
		{"user: empty", `"text":""`, ``, marker, false},
		{"user: text", `"text":"t"}]`, ``, marker, false},
		{"system: text; user: text", `"system":[{"type":"text","text":"t"`, ``, marker, true},
		{"system: text; user: text*", `"system":[{"type":"text","text":"t"`, ``, marker, false},
		{"top: *; system: text; user: text", `"system":[{"type":"text","text":"t"`, ``, marker, false},
		{"system: bill; user: text", `cc_version=2"`, ``, marker, false},
		{"tools: tool; user: text", `"input_schema":{}`, ``, marker, true},
		{"tools: later; user: text", `"defer_loading":true`, ``, marker, false},
		{"user: text*", `"type":"ephemeral"`, ``, `,"ttl":"1h"`, true},
		{"user: nested", `"type":"ephemeral"`, ``, `,"ttl":"1h"`, true},
		{"user: text*", `"type":"ephemeral"`, ``, `"ttl":"1h"`, false},
		{"user: text*", `"type":"ephemeral"`, ``, `,"ttl":"5m"`, false},
		{"user: text*", `"type":"ephemeral"`, ``, `,"ttl":"2h"`, false},
		{"user: text*", `"type":"ephemeral"`, `}`, `,"ttl":"1h"`, false},
		{"user: text*", `"type":"ephemeral"}`, ``, `,"ttl":"1h"`, false},
		{"user: text*1h", `"ttl":`, `"1h"`, `"5m"`, true},
		{"user: text*1h", `"ttl":`, `"1h"`, `"1h"`, false},
		{"user: text*1h", `"ttl":`, `"1h"`, `"2h"`, false},
		{"user: text*1h", `"ttl":"1h"`, ``, `,"ttl":"1h"`, false},
		{"user: text*1h", `"type":"ephemeral"`, `,"ttl":"1h"`, ``, false},
		{"user: text*24h", `"ttl":`, `"24h"`, `"5m"`, false},
		{"user: text*1h text*24h", `"ttl":`, `"1h"`, `"5m"`, false},
		{"top: *; user: text*1h", `"ttl":`, `"1h"`, `"5m"`, false},
		{"top: *; user: text", `"cache_control":{"type":"ephemeral"`, ``, `,"ttl":"1h"`, false},
		{"user: text", `"role":`, `"user"`, ``, false},
		{"user: text", ``, ``, ``, false},
	} {
		body := write(t, c.body)
		at := bytes.Index(body, []byte(c.before+c.cut))
		if at < 0 {
			t.Fatalf("%s%s is not in %s", c.before, c.cut, body)
		}
		lo := uint32(at + len(c.before))
		e := breakpoint.Edit{Span: transcript.Span{Lo: lo, Hi: lo + uint32(len(c.cut))}, Text: c.text}
		if got := breakpoint.IsEdit(parse(t, body), e); got != c.want {
			t.Errorf("%q for %q behind %s in %s: %v", c.text, c.cut, c.before, body, got)
		}
	}
}

// TestCaptures: what Claude Code sends is raised and lowered whole, and what is placed on a body without its markers stands
// where Claude Code puts its last ones.
func TestCaptures(t *testing.T) {
	dir := os.Getenv("TIDEMARK_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	pattern := filepath.Join(dir, "captures", "claude", "*.body.json")
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no recorded requests: nothing matches %s; set TIDEMARK_SHARED", pattern)
	}
	turns := 0
	for _, f := range files {
		body, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		client := vectors.Markers(body)
		if len(client) == 0 { // a side request
			continue
		}
		turns++
		want := strings.Split(strings.ReplaceAll(strings.Join(client, ", "), "5m", "1h"), ", ")
		up := decided(t, body, &hour, breakpoint.Plan{Raised: len(client)})
		if diff := gocmp.Diff(want, vectors.Markers(up)); diff != "" {
			t.Errorf("%s raised: %s", f, diff)
		}
		if diff := gocmp.Diff(client, vectors.Markers(decided(t, up, &lower, breakpoint.Plan{Lowered: len(client)}))); diff != "" {
			t.Errorf("%s lowered: %s", f, diff)
		}
		var cuts []breakpoint.Edit
		for _, m := range parse(t, body).Markers {
			cuts = append(cuts, breakpoint.Edit{Span: m.Cut})
		}
		slices.SortFunc(cuts, func(a, b breakpoint.Edit) int { return cmp.Compare(a.Span.Lo, b.Span.Lo) })
		plain := apply(body, cuts)
		placed := vectors.Markers(decided(t, plain, &put, breakpoint.Plan{Placed: 2}))
		if diff := gocmp.Diff(client[len(client)-2:], placed); diff != "" {
			t.Errorf("%s placed: %s", f, diff)
		}
	}
	if turns == 0 {
		t.Error("no turn among the recorded requests")
	}
}

// decided is the outbound for a body whose plan must have done just that.
func decided(t *testing.T, body []byte, in *breakpoint.Input, did breakpoint.Plan) []byte {
	t.Helper()
	ask := *in
	ask.Index, ask.Frontier = parse(t, body), -1
	plan, err := breakpoint.Decide(&ask)
	if err != nil {
		t.Fatal(err)
	}
	out := apply(body, plan.Edits)
	if diff := gocmp.Diff(unmarked(t, body), unmarked(t, out)); diff != "" {
		t.Errorf("something besides markers changed: %s", diff)
	}
	for _, e := range plan.Edits {
		if !breakpoint.IsEdit(ask.Index, e) {
			t.Errorf("%+v is no edit of markers", e)
		}
	}
	plan.Marks, plan.Edits = nil, nil
	if diff := gocmp.Diff(did, plan); diff != "" {
		t.Error(diff)
	}
	return out
}
