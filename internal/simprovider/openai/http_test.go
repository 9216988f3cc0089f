package openai

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
	"github.com/tidemark-dev/tidemark/internal/simprovider/simtest"
)

// server is a simulator behind a real connection.
type server struct {
	t   *testing.T
	sim *Sim
	url string
}

func serve(t *testing.T, opts Options) *server {
	t.Helper()
	s := New(opts)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return &server{t, s, web.URL}
}

func (s *server) do(method, path string, body []byte, header map[string]string) simtest.Answer {
	s.t.Helper()
	return simtest.Do(s.t, method, s.url+path, body, header)
}

func decoded(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %.500s", err, raw)
	}
	return v
}

// event is one server-sent event.
type event struct {
	name string
	data map[string]any // nil for [DONE]
}

func events(t *testing.T, raw []byte) []event {
	t.Helper()
	var out []event
	for block := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n\n"), "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
				e.data = decoded(t, []byte(data))
			} else if data != "[DONE]" {
				t.Fatalf("line %q", line)
			}
		}
		out = append(out, e)
	}
	return out
}

const (
	richItems = `[{"type":"reasoning","summary":[{"type":"summary_text","text":"I should read the file first, ünderstood"},{"type":"summary_text","text":"then"}]},` +
		`{"type":"message","content":[{"type":"output_text","text":"Réading the file and then some more of it."},{"type":"refusal","refusal":"not that one"}]},` +
		`{"type":"function_call","name":"read","arguments":"{\"path\":\"/home/dev/a/rather/long/path.go\"}"},` +
		`{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin Patch\n*** End Patch\n"},{"type":"web_search_call","status":"completed","action":{"type":"search"}}]`
	richMessage = `{"content":"Réading the file and then some more of it.","tool_calls":[{"function":{"name":"read","arguments":"{\"path\":\"/home/dev/a/rather/long/path.go\"}"}},` +
		`{"id":"call_mine","function":{"name":"list","arguments":"{}"}},{"custom":{"name":"apply_patch","input":"*** Begin Patch"}}]}`
)

// gather puts the items of a stream of Responses together from the deltas alone.
func gather(t *testing.T, list []event) []any {
	t.Helper()
	var items []any
	at := func(e event) map[string]any {
		item := items[int(e.data["output_index"].(float64))].(map[string]any)
		if id, ok := e.data["item_id"]; ok && id != item["id"] {
			t.Errorf("%s names item %v, not %v", e.name, id, item["id"])
		}
		return item
	}
	part := func(e event, list, index string) map[string]any {
		return at(e)[list].([]any)[int(e.data[index].(float64))].(map[string]any)
	}
	grow := func(m map[string]any, name string, e event) { m[name] = m[name].(string) + e.data["delta"].(string) }
	for i, e := range list {
		if e.data["type"] != e.name || e.data["sequence_number"] != float64(i) {
			t.Errorf("event %d: %s %v", i, e.name, e.data)
		}
		switch e.name {
		case "response.output_item.added":
			items = append(items, e.data["item"])
		case "response.content_part.added":
			at(e)["content"] = append(at(e)["content"].([]any), e.data["part"])
		case "response.reasoning_summary_part.added":
			at(e)["summary"] = append(at(e)["summary"].([]any), e.data["part"])
		case "response.output_text.delta":
			grow(part(e, "content", "content_index"), "text", e)
		case "response.refusal.delta":
			grow(part(e, "content", "content_index"), "refusal", e)
		case "response.reasoning_summary_text.delta":
			grow(part(e, "summary", "summary_index"), "text", e)
		case "response.function_call_arguments.delta":
			grow(at(e), "arguments", e)
		case "response.custom_tool_call_input.delta":
			grow(at(e), "input", e)
		case "response.output_item.done":
			item := at(e)
			if item["status"] != nil {
				item["status"] = "completed"
			}
			if diff := cmp.Diff(e.data["item"], any(item)); diff != "" {
				t.Errorf("the deltas differ from the item: %s", diff)
			}
		}
	}
	return items
}

// TestResponseStreamEqualsJSON: a stream says what the plain answer says, in its deltas and at its end.
func TestResponseStreamEqualsJSON(t *testing.T) {
	for _, script := range []string{"", richItems} {
		header := map[string]string{"x-sim-reply": script, "x-sim-now": start.Format(time.RFC3339Nano)}
		body := func(more string) []byte { return conv(modern, sealed+more, says("user", input("a", 1500))) }
		whole := serve(t, Options{}).do("POST", pathResponses, body(""), header)
		res := serve(t, Options{}).do("POST", pathResponses, body(`"stream":true,`), header)
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") || res.Status != 200 {
			t.Fatalf("%d %s %s", res.Status, got, res.Body)
		}
		list, want := events(t, res.Body), decoded(t, whole.Body)
		items, last := gather(t, list), list[len(list)-1]
		if list[0].name != "response.created" || last.name != "response.completed" {
			t.Errorf("from %s to %s", list[0].name, last.name)
		}
		if diff := cmp.Diff(want, last.data["response"]); diff != "" {
			t.Errorf("the stream ends with another answer: %s", diff)
		}
		if diff := cmp.Diff(want["output"], any(items)); diff != "" {
			t.Errorf("the stream has other items: %s", diff)
		}
		if first := list[0].data["response"].(map[string]any); first["id"] != want["id"] || first["status"] != "in_progress" || first["usage"] != nil {
			t.Errorf("the stream begins with %v", first)
		}
	}
}

// TestChatStreamEqualsJSON: the same for Chat.
func TestChatStreamEqualsJSON(t *testing.T) {
	for _, script := range []string{"", richMessage, `{"content":null,"refusal":"I can't do that for you, sorry."}`} {
		for _, tally := range []bool{false, true} {
			header := map[string]string{"x-sim-reply": script, "x-sim-now": start.Format(time.RFC3339Nano)}
			members := `"stream":true,`
			if tally {
				members += `"stream_options":{"include_usage":true},`
			}
			whole := decoded(t, serve(t, Options{}).do("POST", pathChat, talk(plain, "", hi), header).Body)
			list := events(t, serve(t, Options{}).do("POST", pathChat, talk(plain, members, hi), header).Body)
			if list[len(list)-1].data != nil {
				t.Errorf("the stream ends with %v", list[len(list)-1].data)
			}
			message, finish, usage := joinChunks(t, list, whole["id"])
			choice := whole["choices"].([]any)[0].(map[string]any)
			if diff := cmp.Diff(choice["message"], any(message)); diff != "" || finish != choice["finish_reason"] {
				t.Errorf("the stream says something else and ends for %v: %s", finish, diff)
			}
			if diff := cmp.Diff(whole["usage"], usage); tally && diff != "" || !tally && usage != nil {
				t.Errorf("the stream's usage: %s", diff)
			}
		}
	}
}

// joinChunks puts a message together from the chunks of a stream.
func joinChunks(t *testing.T, list []event, id any) (message map[string]any, finish, usage any) {
	t.Helper()
	message = map[string]any{}
	for _, e := range list[:len(list)-1] {
		if e.data["id"] != id || e.data["object"] != "chat.completion.chunk" {
			t.Errorf("chunk %v", e.data)
		}
		choices := e.data["choices"].([]any)
		if len(choices) == 0 {
			usage = e.data["usage"]
			continue
		}
		c := choices[0].(map[string]any)
		finish = c["finish_reason"]
		for name, value := range c["delta"].(map[string]any) {
			if name == "tool_calls" {
				joinCall(message, value.([]any)[0].(map[string]any))
				continue
			}
			if before, ok := message[name].(string); ok {
				value = before + value.(string)
			}
			message[name] = value
		}
	}
	return message, finish, usage
}

func joinCall(message, delta map[string]any) {
	list, _ := message["tool_calls"].([]any)
	index := int(delta["index"].(float64))
	delete(delta, "index")
	if index == len(list) {
		message["tool_calls"] = append(list, any(delta))
		return
	}
	for kind, more := range delta {
		at := list[index].(map[string]any)[kind].(map[string]any)
		for name, text := range more.(map[string]any) {
			at[name] = at[name].(string) + text.(string)
		}
	}
}

// TestCompressed: an answer says the same in every coding, whole and in pieces.
func TestCompressed(t *testing.T) {
	for _, body := range [][]byte{conv(plain, "", hi), conv(plain, `"stream":true,`, hi), []byte(`{}`)} {
		header := map[string]string{"x-sim-reply": richItems, "x-sim-now": start.Format(time.RFC3339Nano), "Accept-Encoding": "identity"}
		want := serve(t, Options{}).do("POST", pathResponses, body, header).Body
		header["Accept-Encoding"], header["x-sim-pieces"] = "zstd", "5"
		res := serve(t, Options{}).do("POST", pathResponses, body, header)
		z, err := zstd.NewReader(bytes.NewReader(res.Body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) || res.Header.Get("Content-Encoding") != "zstd" {
			t.Errorf("%v %.200s", err, got)
		}
		z.Close()
	}
}

// TestTooLongInAStream: a client that streams Responses learns in the stream that its prompt is too long.
func TestTooLongInAStream(t *testing.T) {
	s := serve(t, Options{})
	list := events(t, s.do("POST", pathResponses, conv(plain, `"stream":true,`, says("user", input("a", 272_001))), nil).Body)
	last := list[len(list)-1]
	failed, _ := last.data["response"].(map[string]any)
	if last.name != "response.failed" || failed["error"].(map[string]any)["code"] != "context_length_exceeded" {
		t.Errorf("%v", last)
	}
	res := s.do("POST", pathResponses, conv(plain, "", says("user", input("a", 272_001))), nil)
	if e := decoded(t, res.Body)["error"].(map[string]any); res.Status != 400 || e["code"] != "context_length_exceeded" || e["param"] != "input" {
		t.Errorf("%d %s", res.Status, res.Body)
	}
}

// TestScripted: a model that is a function says what the function says, a header goes first, and what it leaves open is said
// by the simulator.
func TestScripted(t *testing.T) {
	asked := 0
	s := serve(t, Options{Reply: func(r simkit.Request) (json.RawMessage, bool) {
		asked++
		if r.Path == pathChat {
			return json.RawMessage(`{"content":"` + r.Body["model"].(string) + `"}`), r.Header.Get("x-say") != ""
		}
		return json.RawMessage(`[{"type":"function_call","name":"read","arguments":"{}"}]`), true
	}})
	for _, c := range []struct {
		path   string
		body   []byte
		header map[string]string
		want   string
	}{
		{pathChat, talk(plain, "", hi), map[string]string{"x-say": "1"}, `"content":"gpt-5.1"`},
		{pathChat, talk(plain, "", hi), nil, `"content":"Understood."`},
		{pathResponses, conv(plain, "", hi), nil, `"type":"function_call","name":"read"`},
		{pathResponses, conv(plain, "", hi), map[string]string{"x-sim-reply": `[{"type":"message","content":"me"}]`}, `"text":"me"`},
		{pathCompact, conv(plain, "", hi), nil, `"type":"compaction"`},
	} {
		if res := s.do("POST", c.path, c.body, c.header); res.Status != 200 || !strings.Contains(string(res.Body), c.want) {
			t.Errorf("%d %s, want %s", res.Status, res.Body, c.want)
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

// TestSteering: headers that make no sense are refused, those that ask for a refusal get one, and nothing is cached.
func TestSteering(t *testing.T) {
	body := conv(modern, "", says("user", input("a", 1500)))
	for _, c := range []struct {
		header map[string]string
		status int
		want   string
	}{
		{map[string]string{"x-sim-status": "429"}, 429, `"code":"rate_limit_exceeded"`},
		{map[string]string{"x-sim-status": "500"}, 500, `"type":"server_error"`},
		{map[string]string{"x-sim-status": "503"}, 503, "overloaded"},
		{map[string]string{"x-sim-status": "401"}, 401, `"code":"invalid_api_key"`},
		{map[string]string{"x-sim-status": "200"}, 400, "X-Sim-Status"},
		{map[string]string{"x-sim-delay": "soon"}, 400, "X-Sim-Delay"},
		{map[string]string{"x-sim-now": "soon"}, 400, "X-Sim-Now"},
		{map[string]string{"x-sim-pieces": "0"}, 400, "X-Sim-Pieces"},
		{map[string]string{"x-sim-reply": "{}"}, 400, "X-Sim-Reply: read reply: want a list"},
		{map[string]string{"x-sim-reply": `[{"type":"thought"}]`}, 400, "Invalid value: 'thought'"},
		{map[string]string{"x-sim-reply": `[`}, 400, "X-Sim-Reply"},
	} {
		s := serve(t, Options{Now: func() time.Time { return start }})
		res := s.do("POST", pathResponses, body, c.header)
		if res.Status != c.status || !strings.Contains(string(res.Body), c.want) {
			t.Errorf("%v: %d %s", c.header, res.Status, res.Body)
		}
		if n := s.sim.Cached(pathResponses, body, start); n != 0 {
			t.Errorf("%v: %d cached", c.header, n)
		}
	}
}

// TestPaths: what else the server answers.
func TestPaths(t *testing.T) {
	s := serve(t, Options{})
	now := map[string]string{"x-sim-now": start.Format(time.RFC3339Nano)}
	if list := decoded(t, s.do("GET", "/v1/models", nil, nil).Body)["data"].([]any); len(list) != len(catalogue) {
		t.Errorf("%d models", len(list))
	}
	conversation := decoded(t, s.do("POST", "/v1/conversations", []byte(`{}`), now).Body)["id"].(string)
	long := says("user", input("a", 1500))
	s.do("POST", "/openai/v1/responses", conv(modern, `"conversation":"`+conversation+`",`, long), now)
	second := decoded(t, s.do("POST", "/responses", conv(modern, `"conversation":"`+conversation+`",`, hi), now).Body)
	if cached := second["usage"].(map[string]any)["input_tokens_details"].(map[string]any)["cached_tokens"]; cached != 1500.0 {
		t.Errorf("%v cached", cached)
	}
	shortened := decoded(t, s.do("POST", pathCompact, conv(modern, "", long), now).Body)
	if shortened["object"] != "response.compaction" || len(shortened["output"].([]any)) != 2 {
		t.Errorf("%v", shortened)
	}
	if res := s.do("GET", "/v1/files", nil, now); res.Status != 404 || !strings.Contains(string(res.Body), "Invalid URL (GET /v1/files)") {
		t.Errorf("%d %s", res.Status, res.Body)
	}
	var log []map[string]any
	if err := json.Unmarshal(s.do("GET", "/sim/requests?body=1", nil, nil).Body, &log); err != nil || len(log) != 4 {
		t.Fatalf("%v: %d requests", err, len(log))
	}
	for i, want := range []map[string]any{
		{"status": 200.0, "path": "/openai/v1/responses", "cost": 1500 * 1.25},
		{"status": 200.0, "cost": 150 + 1.25*(10+7)},
		{"status": 200.0, "cost": 150.0},
		{"status": 404.0, "error": "invalid_request_error: Invalid URL (GET /v1/files)"},
	} {
		got := maps.Clone(log[i])
		maps.DeleteFunc(got, func(name string, _ any) bool { return want[name] == nil })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request %d: %s", i+1, diff)
		}
	}
	if log[0]["body"] == nil || log[0]["live"] == nil {
		t.Errorf("%v", log[0])
	}
	if res := s.do("POST", "/sim/reset", nil, nil); res.Status != 204 || len(s.sim.Requests()) != 0 {
		t.Errorf("%d, %d requests", res.Status, len(s.sim.Requests()))
	}
	if quiet := New(Options{NoLog: true}); quiet.Call(pathChat, nil, nil, start).Err == nil || len(quiet.Requests()) != 0 {
		t.Error("a log that nobody wants")
	}
}

// TestParallel: requests of many clients at once, all of which are accounted for.
func TestParallel(t *testing.T) {
	s := serve(t, Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for _, model := range []string{plain, modern} {
				body := conv(model, `"stream":true,`, says("user", input("a", 1500)), says("user", input(strconv.Itoa(i), 20)))
				if res := s.do("POST", pathResponses, body, map[string]string{"x-sim-delay": "1ms"}); res.Status != http.StatusOK {
					t.Errorf("%d %s", res.Status, res.Body)
				}
				s.sim.Cached(pathResponses, body, start)
				s.sim.Holds("a", start)
			}
		})
	}
	wg.Wait()
	total, billed := 0, 0
	for _, rec := range s.sim.Requests() {
		total, billed = total+rec.Prompt, billed+rec.Usage.Input+rec.Usage.Read+rec.Usage.Write
	}
	if total != 16*1520 || billed != total {
		t.Errorf("%d tokens in prompts, %d billed", total, billed)
	}
}
