package simprovider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// events reads a stream of server-sent events.
func events(t *testing.T, raw []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	name := ""
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = event
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			out = append(out, value(t, []byte(data)))
			if out[len(out)-1]["type"] != name {
				t.Errorf("event %s holds %s", name, data)
			}
		}
	}
	return out
}

func value(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

// collect puts a streamed message together as a client does.
func collect(t *testing.T, list []map[string]any) map[string]any {
	t.Helper()
	var message map[string]any
	var content []any
	partial := ""
	for _, e := range list {
		switch e["type"] {
		case "message_start":
			message = e["message"].(map[string]any)
		case "content_block_start":
			content, partial = append(content, e["content_block"]), ""
		case "content_block_delta":
			block, delta := content[len(content)-1].(map[string]any), e["delta"].(map[string]any)
			switch delta["type"] {
			case "text_delta":
				block["text"] = block["text"].(string) + delta["text"].(string)
			case "thinking_delta":
				block["thinking"] = block["thinking"].(string) + delta["thinking"].(string)
			case "signature_delta":
				block["signature"] = delta["signature"]
			case "input_json_delta":
				partial += delta["partial_json"].(string)
			}
		case "content_block_stop":
			if block := content[len(content)-1].(map[string]any); partial != "" {
				block["input"] = value(t, []byte(partial))
			}
		case "message_delta":
			message["stop_reason"] = e["delta"].(map[string]any)["stop_reason"]
			maps.Copy(message["usage"].(map[string]any), e["usage"].(map[string]any))
		}
	}
	message["content"] = content
	return message
}

// TestStreamAndJSON: both say the same, in content and in usage.
func TestStreamAndJSON(t *testing.T) {
	script := `[{"type":"thinking","thinking":"Let me look at the file, ` + strings.Repeat("ü", 99) + `."},{"type":"text","text":"I read \"a.go\"\nfirst."},` +
		`{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"toolu_1","name":"Read","input":{"path":"a.go","lines":[1,2.50],"é":null}}]`
	old := conv(binding, "", user(sized("a", 600, mark5m), sized("b", 20, mark5m)))
	body := conv(binding, "", user(sized("a", 600, mark1h), sized("B", 500, mark1h), sized("c", 40, mark5m), sized("d", 30)))
	header := map[string]string{"x-sim-reply": script, "x-sim-now": start.Add(time.Second).Format(time.RFC3339Nano)}
	a, b := serve(t, Options{}), serve(t, Options{})
	for _, s := range []*server{a, b} {
		must(t, s.sim, old, nil, start)
	}
	res := a.do("POST", "/v1/messages?beta=true", body, header)
	if res.Status != http.StatusOK || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Request-Id") == "" {
		t.Fatalf("%d %v %s", res.Status, res.Header, res.Body)
	}
	whole := value(t, res.Body)
	stream := bytes.Replace(body, []byte(`"max_tokens"`), []byte(`"stream":true,"max_tokens"`), 1)
	res = b.do("POST", "/v1/messages", stream, header)
	if res.Status != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %v %s", res.Status, res.Header, res.Body)
	}
	list := events(t, res.Body)
	first, last := list[0]["message"].(map[string]any), list[len(list)-2]
	if list[0]["type"] != "message_start" || list[1]["type"] != "ping" || list[len(list)-1]["type"] != "message_stop" {
		t.Errorf("order of events: %v", list)
	}
	for _, name := range []string{"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"} {
		if u := whole["usage"].(map[string]any)[name]; !cmp.Equal(first["usage"].(map[string]any)[name], u) || !cmp.Equal(last["usage"].(map[string]any)[name], u) {
			t.Errorf("%s: %v in JSON, %v at the start and %v at the end of the stream", name, u, first["usage"], last["usage"])
		}
	}
	if diff := cmp.Diff(whole, collect(t, list)); diff != "" {
		t.Errorf("JSON and stream differ:\n%s", diff)
	}
	usage := map[string]any{
		"input_tokens": 30.0, "cache_read_input_tokens": 600.0, "cache_creation_input_tokens": 540.0,
		"cache_creation": map[string]any{"ephemeral_5m_input_tokens": 40.0, "ephemeral_1h_input_tokens": 500.0},
		"output_tokens":  whole["usage"].(map[string]any)["output_tokens"],
	}
	if diff := cmp.Diff(usage, whole["usage"]); diff != "" {
		t.Errorf("usage:\n%s", diff)
	}
	if whole["stop_reason"] != "tool_use" || whole["model"] != binding || whole["id"] == must(t, a.sim, old, nil, start).ID {
		t.Errorf("%v", whole)
	}
}

func TestEndpoints(t *testing.T) {
	s := serve(t, Options{Now: func() time.Time { return start }})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/api/hello", 200},
		{"HEAD", "/api/hello", 200},
		{"GET", "/v1/models", 200},
		{"GET", "/v1/messages", 404},
		{"POST", "/v1/complete", 404},
		{"GET", "/", 404},
		{"POST", "/api/hello", 404},
		{"POST", "/sim/reset", 204},
	} {
		res := s.do(c.method, c.path, nil, nil)
		if res.Status != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, res.Status, c.status)
		}
		if c.status == 404 {
			id := res.Header.Get("Request-Id")
			want := map[string]any{"type": "error", "error": map[string]any{"type": "not_found_error", "message": "Not found"}, "request_id": id}
			if diff := cmp.Diff(want, value(t, res.Body)); diff != "" || id == "" {
				t.Errorf("%s %s: %s", c.method, c.path, diff)
			}
		}
	}
	body := s.do("GET", "/v1/models", nil, nil).Body
	for _, m := range value(t, body)["data"].([]any) {
		if id := m.(map[string]any)["id"].(string); s.sim.Call(conv(id, "", user(hi)), nil, start).Err != nil {
			t.Errorf("the model %s is listed and not served", id)
		}
	}
}

func TestCountTokens(t *testing.T) {
	s := serve(t, Options{})
	body := conv(modern, "", user(sized("a", 1100, mark5m), sized("b", 20)))
	counted := bytes.Replace(body, []byte(`"max_tokens":100,`), nil, 1)
	res := s.do("POST", "/v1/messages/count_tokens?beta=true", counted, nil)
	if res.Status != http.StatusOK || string(res.Body) != `{"input_tokens":1120}` {
		t.Errorf("%d %s", res.Status, res.Body)
	}
	log := s.sim.Requests()
	if len(log) != 1 || log[0].Path != "/v1/messages/count_tokens" || log[0].Prompt != 1120 || s.sim.Cost(log[0]) != 0 || log[0].Live != nil {
		t.Errorf("%+v", log)
	}
}

// TestErrorsOverHTTP: a refusal has the provider's shape, also where a stream was asked for.
func TestErrorsOverHTTP(t *testing.T) {
	s := serve(t, Options{})
	for _, c := range []struct {
		body    string
		header  map[string]string
		status  int
		details any
	}{
		{`{"model":"claude-opus-4-6","stream":true,"messages":[]}`, nil, 400, nil},
		{`{}`, map[string]string{"x-sim-status": "529"}, 529, nil},
		{`{}`, map[string]string{"x-sim-now": "yesterday"}, 400, nil},
		{`{}`, map[string]string{"x-sim-delay": "long"}, 400, nil},
		{string(conv(modern, "", user(hi))), map[string]string{"x-sim-reply": "no"}, 400, nil},
		{string(conv(modern, "", user(hi))), map[string]string{"x-sim-reply": `{"type":"text","text":"x"}`}, 400, nil},
		{string(conv(modern, "", user(hi))), map[string]string{"x-sim-reply": `[7]`}, 400, nil},
		{
			string(conv(modern, `"thread":{"type":"continue","previous_message_id":"msg_x"},`, user(hi))),
			map[string]string{"anthropic-beta": betaThreads},
			404,
			map[string]any{"error_code": "thread_not_found"},
		},
	} {
		res := s.do("POST", "/v1/messages", []byte(c.body), c.header)
		v := value(t, res.Body)
		e, _ := v["error"].(map[string]any)
		if res.Status != c.status || v["type"] != "error" || e["message"] == "" || e["type"] == "" || !cmp.Equal(e["details"], c.details) {
			t.Errorf("%s %v: %d %s", c.body, c.header, res.Status, res.Body)
		}
	}
}

// TestLogOverHTTP: what arrived, byte for byte, without credentials.
func TestLogOverHTTP(t *testing.T) {
	s := serve(t, Options{})
	body := conv(modern, "", user(sized("a", 1100, mark1h)))
	header := map[string]string{"x-api-key": "secret", "x-sim-now": "2026-11-30T09:00:00.000000001Z"}
	s.do("POST", "/v1/messages", body, header)
	s.do("POST", "/v1/messages", []byte("{"), header)
	raw := s.do("GET", "/sim/requests?body=1", nil, nil).Body
	var lines []struct {
		Received
		Cost float64
	}
	if err := json.Unmarshal(raw, &lines); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || !bytes.Equal(lines[0].Body, body) || string(lines[1].Body) != "{" || lines[1].Status != 400 || lines[1].Error == "" ||
		!lines[0].Time.Equal(start.Add(1)) || lines[0].Cost != 2200 || lines[0].Usage.Write1h != 1100 ||
		len(lines[0].Live) != 1 || lines[0].Live[0].TTL != long || bytes.Contains(raw, []byte("secret")) {
		t.Errorf("%+v", lines)
	}
	if log := s.sim.Requests(); log[0].Header.Get("X-Api-Key") != "secret" || !bytes.Equal(log[0].Body, body) {
		t.Errorf("%+v", log[0])
	}
	if raw = s.do("GET", "/sim/requests", nil, nil).Body; bytes.Contains(raw, []byte(`"body"`)) {
		t.Error("the list has bodies that nobody asked for")
	}
	s.do("POST", "/sim/reset", nil, nil)
	if raw = s.do("GET", "/sim/requests", nil, nil).Body; string(raw) != "[]" || s.sim.Cached(body, start) != 0 {
		t.Errorf("after a reset: %s", raw)
	}
}

// TestLogIsBounded: of very many requests the newest are kept.
func TestLogIsBounded(t *testing.T) {
	s := New(Options{})
	for i := range simkit.KeptRecords + 10 {
		s.Call(nil, nil, start.Add(time.Duration(i)))
	}
	if log := s.Requests(); len(log) != simkit.KeptRecords || !log[len(log)-1].Time.Equal(start.Add(simkit.KeptRecords+9)) {
		t.Errorf("%d requests are kept", len(log))
	}
	for i := range keptLive + 10 {
		s.Call(conv(modern, "", user(sized(strconv.Itoa(i), 1100+i, mark5m))), nil, start)
	}
	if log := s.Requests(); len(log[simkit.KeptRecords-1].Live) != keptLive || log[simkit.KeptRecords-1].Live[0].Tokens != 1100+keptLive+9 {
		t.Errorf("%d entries are kept", len(log[simkit.KeptRecords-1].Live))
	}
}

// TestParallel: requests of many clients at once, all of which are accounted for.
func TestParallel(t *testing.T) {
	s := serve(t, Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := conv(modern, "", user(sized("a", 1100), sized(strconv.Itoa(i), 20, mark5m)))
			for range 5 {
				if res := s.do("POST", "/v1/messages", body, map[string]string{"x-sim-delay": "1ms"}); res.Status != http.StatusOK {
					t.Errorf("%d %s", res.Status, res.Body)
				}
				s.sim.Cached(body, start)
				s.sim.Holds("a", start)
			}
		})
	}
	wg.Wait()
	ids := map[string]bool{}
	for _, rec := range s.sim.Requests() {
		ids[rec.ID] = true
		if u := rec.Usage; u.Input+u.Read+u.Write5m != 1120 || rec.Prompt != 1120 {
			t.Errorf("%+v", rec.Usage)
		}
	}
	if len(ids) != 40 {
		t.Errorf("%d ids for 40 requests", len(ids))
	}
}
