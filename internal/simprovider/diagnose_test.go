package simprovider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func asks(id string) string {
	if id == "" {
		return `"diagnostics":{"previous_message_id":null},`
	}
	return fmt.Sprintf(`"diagnostics":{"previous_message_id":%q},`, id)
}

// TestDiagnostics: where a prompt leaves the one before it, and how much of what was cached stood behind that place.
func TestDiagnostics(t *testing.T) {
	tool := func(name string) string { return fmt.Sprintf(`{"name":%q,"input_schema":{}}`, name) }
	head := func(tools, system string) string { return `"tools":[` + tools + `],"system":[` + system + `],` }
	one, text := tool("one"), sized("s", 600)
	a, b := sized("a", 700), sized("b", 100)
	tools := 6 // of one tool: nameoneinput_schema is 19 characters
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"the same":      {conv(modern, head(one, text), user(a, b)), `null`},
		"appended":      {conv(modern, head(one, text), user(a, b), assistant(hi), user(hi)), `null`},
		"split":         {conv(modern, head(one, text), user(a), user(b, hi)), `null`},
		"markers moved": {conv(modern, head(one, sized("s", 600, mark1h)), user(a, sized("b", 100))), `null`},
		"not prompt":    {conv(modern, `"metadata":{"user_id":"x"},"stream":true,`+head(one, text), user(a, b)), `null`},
		"model":         {conv("claude-opus-4-7", head(one, text), user(a, b)), miss("model_changed", tools+1400)},
		"tool added":    {conv(modern, head(one+","+tool("two"), text), user(a, b)), miss("tools_changed", 1400)},
		"tools first":   {conv(modern, head(tool("two"), sized("t", 600)), user(b)), miss("tools_changed", tools+1400)},
		"tools gone":    {conv(modern, `"system":[`+text+`],`, user(a, b)), miss("tools_changed", tools+1400)},
		"system":        {conv(modern, head(one, sized("t", 600)), user(a, b)), miss("system_changed", 1400)},
		"system longer": {conv(modern, head(one, text+","+sized("t", 20)), user(a, b)), miss("system_changed", 800)},
		"system gone":   {conv(modern, `"tools":[`+one+`],`, user(a, b)), miss("system_changed", 1400)},
		"edited":        {conv(modern, head(one, text), user(a, sized("B", 100)), assistant(hi), user(hi)), miss("messages_changed", 100)},
		"edited early":  {conv(modern, head(one, text), user(sized("A", 700), b)), miss("messages_changed", 800)},
		"taken back":    {conv(modern, head(one, text), user(a)), miss("messages_changed", 100)},
		"tool_choice":   {conv(modern, `"tool_choice":{"type":"any"},`+head(one, text), user(a, b)), miss("unavailable", -1)},
		"effort":        {conv(modern, `"output_config":{"effort":"low"},`+head(one, text), user(hi)), miss("unavailable", -1)},
		"speed":         {conv(modern, `"speed":"fast",`+head(one, sized("t", 600)), user(hi)), miss("unavailable", -1)},
		"clearing":      {conv(modern, `"context_management":{"edits":[]},`+head(one, text), user(a, b)), miss("unavailable", -1)},
	} {
		s := New(Options{})
		old := must(t, s, conv(modern, asks("")+head(one, text), user(a, sized("b", 100, mark5m))), nil, start)
		if old.Prompt-old.Usage.Input != tools+1400 || string(old.diagnostics()) != "null" {
			t.Fatalf("%+v", old)
		}
		body := []byte(strings.Replace(string(c.body), `"max_tokens"`, asks(old.ID)+`"max_tokens"`, 1))
		res := must(t, s, body, nil, start.Add(fingerprintLife))
		if got := string(res.diagnostics()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func miss(reason string, tokens int) string {
	if tokens < 0 {
		return fmt.Sprintf(`{"cache_miss_reason":{"type":%q}}`, reason)
	}
	return fmt.Sprintf(`{"cache_miss_reason":{"type":%q,"cache_missed_input_tokens":%d}}`, reason, tokens)
}

// TestDiagnosticsOfDeferredTools: a tool that is not yet in the prompt may change; one that a reference brought in may not.
func TestDiagnosticsOfDeferredTools(t *testing.T) {
	s := New(Options{})
	body := func(id, schema string, messages ...string) []byte {
		return conv(modern, asks(id)+`"tools":[{"name":"one","input_schema":`+schema+`,"defer_loading":true}],`, messages...)
	}
	found := user(`{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"one"}]` + mark5m + `}`)
	id := must(t, s, body("", `{}`, user(hi)), nil, start).ID
	res := must(t, s, body(id, `{"a":1}`, user(hi), assistant(use("a")), found), nil, start)
	if res.Miss != nil {
		t.Errorf("%+v", res.Miss)
	}
	if res = must(t, s, body(res.ID, `{"a":2}`, user(hi), assistant(use("a")), found), nil, start); res.Miss == nil || res.Miss.Reason != MessagesChanged {
		t.Errorf("%+v", res.Miss)
	}
}

// TestDiagnosticsNotFound: only requests that asked can be compared with, by the same key, for a time; another set of betas is
// another prompt.
func TestDiagnosticsNotFound(t *testing.T) {
	s := New(Options{})
	mine := http.Header{"X-Api-Key": {"mine"}, "Anthropic-Beta": {"a,b"}}
	body := func(members string) []byte { return conv(modern, members, user(hi)) }
	silent, asked := must(t, s, body(""), mine, start), must(t, s, body(asks("")), mine, start)
	if silent.diagnostics() != nil || silent.Diagnosed {
		t.Errorf("%+v", silent)
	}
	for name, c := range map[string]struct {
		id     string
		header http.Header
		at     time.Time
		want   string
	}{
		"found":        {asked.ID, http.Header{"X-Api-Key": {"mine"}, "Anthropic-Beta": {"b", "a"}}, start, `null`},
		"never asked":  {silent.ID, mine, start, miss(PreviousMessageNotFound, -1)},
		"unknown":      {"msg_x", mine, start, miss(PreviousMessageNotFound, -1)},
		"another key":  {asked.ID, http.Header{"Anthropic-Beta": {"a,b"}}, start, miss(PreviousMessageNotFound, -1)},
		"too late":     {asked.ID, mine, start.Add(fingerprintLife + 1), miss(PreviousMessageNotFound, -1)},
		"another beta": {asked.ID, http.Header{"X-Api-Key": {"mine"}, "Anthropic-Beta": {"a,c"}}, start, miss(Unavailable, -1)},
	} {
		res := must(t, s, body(asks(c.id)), c.header, c.at)
		if got := string(res.diagnostics()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if log := s.Requests(); log[len(log)-1].Miss != res.Miss {
			t.Errorf("%s: the log says %v", name, log[len(log)-1].Miss)
		}
	}
	for want, members := range map[string]string{
		"diagnostics: Input should be an object":                          `"diagnostics":[],`,
		"diagnostics.previous_message_id: Input should be a valid string": `"diagnostics":{"previous_message_id":7},`,
		"diagnostics.previous: Extra inputs are not permitted":            `"diagnostics":{"previous":"msg_x"},`,
	} {
		if res := s.Call(body(members), nil, start); res.Err == nil || res.Err.Message != want {
			t.Errorf("got %v, want %s", res.Err, want)
		}
	}
}

// TestDiagnosticsOverHTTP: JSON and message_start say the same.
func TestDiagnosticsOverHTTP(t *testing.T) {
	s := serve(t, Options{})
	id := must(t, s.sim, conv(modern, asks(""), user(sized("a", 1100, mark5m))), nil, start).ID
	now := map[string]string{"x-sim-now": start.Format(time.RFC3339)}
	for _, stream := range []string{"", `"stream":true,`} {
		res := s.do("POST", "/v1/messages", conv(modern, stream+asks(id), user(sized("b", 1100, mark5m))), now)
		var message map[string]any
		if stream == "" {
			message = value(t, res.Body)
		} else {
			message = events(t, res.Body)[0]["message"].(map[string]any)
		}
		raw, err := json.Marshal(message["diagnostics"])
		if want := `{"cache_miss_reason":{"cache_missed_input_tokens":1100,"type":"messages_changed"}}`; err != nil || string(raw) != want {
			t.Errorf("%s %v", raw, err)
		}
	}
}

// TestDiagnosticsAgainstCache: where each request follows the other at once and marks its end, what is diagnosed is what the
// cache says: nothing is missed iff all that the request before had cached is read, and the tokens never exceed what was cached.
func TestDiagnosticsAgainstCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, st, at := New(Options{Policy: Policy{SkipBelow: true}}), &story{}, start
		st.blocks = []drawn{{"user", sized("first", 700)}}
		id, cached := "", 0
		for range rapid.IntRange(2, 12).Draw(t, "requests") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				st.cut(t)
			default:
				st.add(t)
			}
			at = at.Add(time.Second)
			system := `"system":[` + sized("s", rapid.SampledFrom([]int{600, 600, 600, 601}).Draw(t, "system")) + `],`
			messages := make([]string, 0, len(st.blocks))
			for i, d := range st.blocks {
				if i == len(st.blocks)-1 {
					d.block = d.block[:len(d.block)-1] + mark5m + "}"
				}
				messages = append(messages, says(d.role, []string{d.block}))
			}
			res := must(t, s, conv(binding, asks(id)+system, messages...), nil, at)
			switch read := res.Usage.Read; {
			case res.Miss != nil && (res.Miss.Tokens <= 0 || res.Miss.Tokens > cached):
				t.Fatalf("missed %+v of %d", res.Miss, cached)
			case res.Miss == nil && read < cached && len(st.blocks) < lookback:
				t.Fatalf("nothing is missed, and %d of %d are read", read, cached)
			}
			id, cached = res.ID, res.Prompt-res.Usage.Input
		}
	})
}
