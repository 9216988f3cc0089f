package replay

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/simprovider/openai"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// minutes is a provider of automatic caching that keeps what it caches for ten minutes.
var minutes = Provider{AutoTTL: 10 * time.Minute}

var openAIs = map[string]transcript.Format{"openai-chat": transcript.Chat, "openai-responses": transcript.Responses}

// as is the same conversation as a client of one of OpenAI's APIs records it.
func (s *scene) as(api string) *scene {
	s.t.Helper()
	out := &scene{t: s.t, api: api, model: "gpt-5.4"}
	add := func(ts string, item map[string]any) {
		out.messages, out.ts = append(out.messages, item), append(out.ts, ts)
	}
	begin := map[string]any{"role": "developer", "content": "Follow the user."}
	if api == "openai-responses" {
		begin["type"] = "message"
	}
	add(s.ts[0], begin)
	for i, m := range s.messages {
		m := m.(map[string]any)
		for _, item := range rendered(api, m["role"].(string), m["content"].([]any)) {
			add(s.ts[i], item)
		}
	}
	return out
}

// rendered is one message of a scene as elements of a body of OpenAI's.
func rendered(api, role string, content []any) (items []map[string]any) {
	chat := api == "openai-chat"
	said := map[string]any{"role": role, "content": nil}
	var calls []any
	for _, part := range content {
		p := part.(map[string]any)
		switch p["type"] {
		case "tool_result":
			p["content"] = enveloped(p["content"].(string))
			if chat {
				items = append(items, map[string]any{"role": "tool", "tool_call_id": p["tool_use_id"], "content": p["content"]})
			} else {
				items = append(items, map[string]any{"type": "function_call_output", "call_id": p["tool_use_id"], "output": p["content"]})
			}
		case "tool_use":
			args, _ := json.Marshal(p["input"])
			f := map[string]any{"name": p["name"], "arguments": string(args)}
			if chat {
				calls = append(calls, map[string]any{"id": p["id"], "type": "function", "function": f})
			} else {
				f["type"], f["call_id"] = "function_call", p["id"]
				items = append(items, f)
			}
		default:
			if said["content"] = p["text"]; !chat {
				kind := map[string]string{"user": "input_text", "assistant": "output_text"}[role]
				if role == "assistant" {
					items = append(items, map[string]any{"type": "reasoning", "summary": []any{}, "encrypted_content": "c2VhbGVk"})
				}
				items = append(items, map[string]any{"type": "message", "role": role, "content": []any{map[string]any{"type": kind, "text": p["text"]}}})
			}
		}
	}
	if calls != nil {
		said["tool_calls"] = calls
	}
	if chat && len(items) == 0 {
		items = append(items, said)
	}
	return items
}

// enveloped is a result of a scene in words that say that its call went well: these formats have no flag for it.
func enveloped(result string) string {
	switch {
	case strings.HasPrefix(result, "The file was updated"):
		return "The file x has been updated."
	case strings.HasPrefix(result, "and then"):
		return "Here's the result of running `cat -n` on x:\n" + result
	}
	return result
}

// billOpenAI writes the usage of the request that was answered from message n on; of a run it stands at its end.
func (s *scene) billOpenAI(n int, u *pipeline.Usage) {
	if s.api == "openai-chat" {
		s.usage = append(s.usage, map[string]any{"msg": n, "prompt_tokens": u.Prompt(), "cached_tokens": u.Read, "completion_tokens": 10})
		return
	}
	for n+1 < len(s.messages) && isAssistant(s.messages[n+1]) {
		n++
	}
	s.usage = append(s.usage, map[string]any{"msg": n, "input_tokens": u.Prompt(), "cached_input_tokens": u.Read, "output_tokens": 10})
}

func isAssistant(item any) bool {
	raw, _ := json.Marshal(item)
	return speaker(gjson.ParseBytes(raw), transcript.Responses) == "assistant"
}

// A conversation in another format makes as many requests, with as many messages, at the same times.
func TestOneStoryInEveryFormat(t *testing.T) {
	want := story0(t).write()
	for api, format := range openAIs {
		rec := story0(t).as(api).write()
		if len(rec.Requests) != len(want.Requests) {
			t.Fatalf("%s: %d requests, want %d", api, len(rec.Requests), len(want.Requests))
		}
		for n := range rec.Requests {
			r := &rec.Requests[n]
			ix, err := transcript.Parse(r.Body(), format)
			if err != nil {
				t.Fatalf("%s request %d: %v", api, n, err)
			}
			other, err := transcript.Parse(want.Requests[n].Body(), transcript.Anthropic)
			if err != nil {
				t.Fatal(err)
			}
			if len(ix.Messages) != len(other.Messages) || len(ix.Results) != len(other.Results) || !ix.HasTools {
				t.Errorf("%s request %d: %d messages, %d results, want %d and %d", api, n, len(ix.Messages), len(ix.Results), len(other.Messages), len(other.Results))
			}
			if !r.At.Equal(want.Requests[n].At) {
				t.Errorf("%s request %d at %v, want %v", api, n, r.At, want.Requests[n].At)
			}
			ix.Release()
			other.Release()
		}
	}
}

// The same is decided as in Anthropic's format, brings something, and is used again as often.
func TestColdMomentsOfAutomaticCaching(t *testing.T) {
	want := run(t, story0(t).write(), Options{Policies: policies(t, reads)})[0]
	for api := range openAIs {
		r := run(t, story0(t).as(api).write(), Options{Policies: policies(t, reads), Provider: minutes})[0]
		if r.Bill.Refused+r.PassThrough.Refused > 0 || r.Moves != 1 || r.Decisions["readlifecycle"] != 1 || r.Ratio >= 1 || r.Unbounded || r.BilledAs != "" {
			t.Errorf("%s: %d refused, %d moves, %v, ratio %v", api, r.Bill.Refused, r.Moves, r.Decisions, r.Ratio)
		}
		if r.Reuse.Removed != want.Reuse.Removed || r.Reuse.Again != want.Reuse.Again || r.Reuse.Reread != want.Reuse.Reread || r.Reuse.Referenced != want.Reuse.Referenced {
			t.Errorf("%s: used again %+v, want %+v", api, r.Reuse, want.Reuse)
		}
		if len(r.MoveList) != 1 {
			continue
		}
		m, w := r.MoveList[0], want.MoveList[0]
		if m.N != w.N || m.FromMessage != w.FromMessage || m.Lost != 0 || m.Outcome <= 0 || m.Calls != w.Calls {
			t.Errorf("%s: got %+v, want %+v", api, m, w)
		}
		if saved := r.PassThrough.USD - r.Bill.USD; !near(saved, m.Outcome, 0.02) {
			t.Errorf("%s: the session saved $%.4f, the move brought $%.4f", api, saved, m.Outcome)
		}
	}
}

// What the provider may hold for a day, or for nobody knows how long, is not cold after half an hour.
func TestNothingIsColdWithoutABound(t *testing.T) {
	for model, unbounded := range map[string]bool{"gpt-5.4": false, "deepseek-chat": true} {
		for api := range openAIs {
			s := story0(t).as(api)
			s.model = model
			r := run(t, s.write(), Options{Policies: policies(t, reads)})[0]
			if r.Moves != 0 || len(r.Decisions) != 0 || r.Ratio != 1 || r.PassThrough.Refused != 0 || r.Gates["readlifecycle.cached_prefix"] == 0 {
				t.Errorf("%s, %s: %d moves, ratio %v, gates %v", model, api, r.Moves, r.Ratio, r.Gates)
			}
			if r.Unbounded != unbounded || (r.BilledAs != "") != unbounded || r.Model != model {
				t.Errorf("%s, %s: unbounded %t, billed as %q, model %s", model, api, r.Unbounded, r.BilledAs, r.Model)
			}
		}
	}
}

// Without tools every request is side traffic: it is billed, and nothing is done to it.
func TestSessionsWithoutTools(t *testing.T) {
	s := newScene(t)
	for i := range 4 {
		s.human(time.Minute, fmt.Sprintf("The output of step %d.", i))
		s.add("assistant", text("Run step %d.", i+1))
	}
	for api := range openAIs {
		r := run(t, s.as(api).write(), Options{Policies: policies(t, reads), Provider: minutes})[0]
		if !r.Untouched() || r.Requests != 4 || r.PassThrough.Requests != 4 || r.Ratio != 1 || r.NetRatio != 1 {
			t.Errorf("%s: %d of %d requests refused, ratio %v, gates %v", api, r.PassThrough.Refused, r.Requests, r.Ratio, r.Gates)
		}
	}
}

func TestCalibrationOfOpenAIs(t *testing.T) {
	for api := range openAIs {
		s := story0(t).as(api)
		s.bill(2.9, 20_000)
		rec := s.write()
		c := calibrate(rec)
		if !near(c.CharsPerToken, 2.9, 0.02) || !near(float64(c.HeadTokens), 20_000, 0.02) || c.Points != 17 {
			t.Errorf("%s: got %+v", api, c)
		}
		r := run(t, s.write(), Options{Policies: policies(t, nothing)})[0]
		if r.Recorded == nil || r.Recorded.Requests != 17 || !near(r.Recorded.Units, r.Recorded.Modelled, 0.02) {
			t.Errorf("%s: got %+v", api, r.Recorded)
		}
	}
	s := newScene(t)
	s.human(0, "Hello.")
	s.add("assistant", text("Good day."))
	if rec := s.as("openai-chat").write(); rec.session.pad(100) {
		t.Error("a body without tools and instructions has a place for what was not recorded")
	}
}

// Two answers next to each other are two requests where usage was billed in between, and one without.
func TestAnswersOfResponses(t *testing.T) {
	s := &session{format: transcript.Responses}
	for _, kind := range []string{"message", "reasoning", "web_search_call", "message", "function_call", "function_call_output", "reasoning", "compaction", "message"} {
		role := map[bool]string{true: `,"role":"assistant"`}[kind == "message" && len(s.Messages) > 0]
		s.Messages = append(s.Messages, json.RawMessage(`{"type":"`+kind+`"`+role+`}`))
	}
	if got := s.answers(nil); !slices.Equal(got, []int{1, 6, 8}) {
		t.Errorf("without usage: %v", got)
	}
	two := 2
	if got := s.answers([]usageRecord{{Msg: &two}}); !slices.Equal(got, []int{1, 3, 6, 8}) {
		t.Errorf("with usage: %v", got)
	}
}

// A judge that knows no more than the body finds the first element that a move changes where the bundle says.
func TestBundlesCountAsBodiesDo(t *testing.T) {
	for api, format := range openAIs {
		dir := t.TempDir()
		r := run(t, story0(t).as(api).write(), Options{Policies: policies(t, reads), Provider: minutes, Bodies: dir})[0]
		raw, err := os.ReadFile(filepath.Join(dir, "scene", "turns.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		n := r.MoveList[0].N
		line := gjson.Parse(strings.Split(string(raw), "\n")[n])
		in, out := elements(t, dir, line.Get("in").Str, format), elements(t, dir, line.Get("out").Str, format)
		first := slices.IndexFunc(in, func(e string) bool { return !slices.Contains(out, e) })
		if got := line.Get("move.from_message").Int(); got != int64(first) || line.Get("format").Str != format.String() {
			t.Errorf("%s: from_message %d, the first that differs is %d", api, got, first)
		}
		if got := line.Get(`events.#(event=="decision").message`).Int(); got != int64(first) {
			t.Errorf("%s: the decision is on %d, want %d", api, got, first)
		}
	}
}

func elements(t *testing.T, dir, name string, format transcript.Format) (all []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "scene", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range gjson.GetBytes(body, listOf(format)).Array() {
		all = append(all, e.Raw)
	}
	return all
}

func TestCapturesOfOpenAIs(t *testing.T) {
	dir := t.TempDir()
	system, ask := `{"role":"system","content":"Be brief."}`, func(words string) string { return `{"role":"user","content":"` + words + `"}` }
	for i, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"gpt-5.4","messages":[` + system + `,` + ask("one") + `]}`},
		{"/v1/chat/completions", `{"model":"gpt-5.4","messages":[` + system + `,` + ask("two") + `]}`},
		{"/v1/chat/completions?x=1", `{"model":"gpt-5.4","messages":[` + system + `,` + ask("one") + `,{"role":"assistant","content":"1"},` + ask("more") + `]}`},
		{"/gateway/v1/responses", `{"model":"gpt-5.4","input":"three"}`},
		{"/openai/deployments/gpt-5.4/chat/completions?api-version=1", `{"messages":[` + ask("four") + `]}`},
	} {
		head, _ := json.Marshal(map[string]any{"method": "POST", "path": c.path, "headers": map[string]string{"content-type": "application/json"}})
		for end, content := range map[string][]byte{"body": []byte(c.body), "head": head} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.%s.json", i, end)), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	rec, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	of := func(n int) string { return rec.Requests[n].Lineage }
	if of(0) == of(1) || of(0) != of(2) && of(1) == of(2) || of(3) == of(0) {
		t.Errorf("conversations are %v", rec.lineages())
	}
	r := run(t, rec, Options{Policies: policies(t, reads)})[0]
	if r.PassThrough.Requests != 5 || r.Model != "gpt-5.4" {
		t.Errorf("got %+v, %s", r.PassThrough, r.Model)
	}
}

// A body asks the simulator for a model that it serves, whoever names the model.
func TestServed(t *testing.T) {
	r := &Request{Header: http.Header{}}
	for body, want := range map[string]string{
		`{"a":{"model":"x"},"model":"gpt-4o","b":1}`:  `{"a":{"model":"x"},"model":"gpt-4o","b":1}`,
		`{"a":{"model":"x"},"model": "other","b":1}`:  `{"a":{"model":"x"},"model": "` + standIn + `","b":1}`,
		`{"model":null,"messages":[]}`:                `{"model":"` + standIn + `","messages":[]}`,
		`{"messages":[]}`:                             `{"model":"` + standIn + `","messages":[]}`,
		`{"model":"gpt-5.4-2026-03-05","messages":1}`: `{"model":"gpt-5.4-2026-03-05","messages":1}`,
	} {
		if got := string(r.served([]byte(body))); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
	r.wire.Model = "gpt-5.1"
	if got := string(r.served([]byte(`{"messages":[]}`))); got != `{"model":"gpt-5.1","messages":[]}` {
		t.Errorf("got %s", got)
	}
	if openai.Units(standIn, openai.Usage{Input: 1}) != 1 {
		t.Error("the stand-in is not served")
	}
}

// An identifier in a string within a string is neither lost nor joined to its escape.
func TestLegible(t *testing.T) {
	raw := []byte(`{"arguments":"{\"cmd\":\"cd /x\\nrun parseBody\\talpha_beta\"}"}`)
	want := []string{"parseBody", "alpha_beta"}
	for _, id := range want {
		if got := identifiers(legible(raw, transcript.Chat)); !slices.Contains(got, id) {
			t.Errorf("%s is not in %q", id, got)
		}
		if !stands(legible(raw, transcript.Responses), id) {
			t.Errorf("%s does not stand", id)
		}
	}
	if string(legible(raw, transcript.Anthropic)) != string(raw) {
		t.Error("Anthropic's bodies have no strings within strings")
	}
}

func TestExplainOfOpenAIs(t *testing.T) {
	p := policies(t, reads)[0]
	for api := range openAIs {
		x, err := Explain(t.Context(), story0(t).as(api).write(), &p, 9, minutes)
		if err != nil {
			t.Fatal(err)
		}
		if x.Outcome.Move == nil || x.Usage == nil || x.Usage.Input == 0 || len(x.Markers) != 0 || len(x.Outcome.Explain) != 9 {
			t.Fatalf("%s: got %+v", api, x)
		}
		if one := x.Outcome.Explain[0]; one.Filter != "readlifecycle" || one.What != "/src/one.go" {
			t.Errorf("%s: the stale read: %+v", api, one)
		}
	}
}

// What the future uses of a conversation does not depend on the format in which it was recorded.
func TestScoreInEveryFormat(t *testing.T) {
	tell := func(rec *Recording, world Provider) (counts [][5]int) {
		s, err := ScoreSession(t.Context(), rec, Options{Policies: policies(t, `{"pipeline":["coref"]}`), Provider: world})
		if err != nil {
			t.Fatal(err)
		}
		rows := []*Tally{}
		for i := range s.Grid {
			rows = append(rows, &s.Grid[i].Tally)
		}
		for i := range s.Cold[0].Rows {
			rows = append(rows, &s.Cold[0].Rows[i].Tally)
		}
		for _, r := range rows {
			counts = append(counts, [5]int{r.Candidates, r.Used, r.Cut, r.FalseDrops, r.Missed})
		}
		return counts
	}
	want := tell(story0(t).write(), Provider{})
	if !slices.ContainsFunc(want, func(c [5]int) bool { return c[2] > 0 && c[3] > 0 }) {
		t.Fatalf("nothing is cut and used: %v", want)
	}
	for api := range openAIs {
		if got := tell(story0(t).as(api).write(), minutes); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", api, got, want)
		}
	}
}
