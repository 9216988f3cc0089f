package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
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

func decoded(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %.500s", err, raw)
	}
	return v
}

// frame is one event of a binary stream.
type frame struct {
	event string
	data  map[string]any
}

func framed(t *testing.T, raw []byte) (list []frame) {
	t.Helper()
	d, r := eventstream.NewDecoder(), bytes.NewReader(raw)
	for r.Len() > 0 {
		m, err := d.Decode(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if kind := m.Headers.Get(eventstreamapi.MessageTypeHeader).String(); kind != "event" {
			t.Errorf("a message of type %s", kind)
		}
		list = append(list, frame{m.Headers.Get(eventstreamapi.EventTypeHeader).String(), decoded(t, m.Payload)})
	}
	return list
}

// objectOf returns a member that is an object; an empty one if there is none.
func objectOf(v map[string]any, name string) map[string]any {
	out, ok := v[name].(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return out
}

const (
	richConverse = `[{"reasoningContent":{"reasoningText":{"text":"I should read the file first, ünderstood","signature":"tidemark-sim.1"}}},` +
		`{"reasoningContent":{"redactedContent":"dGlkZW1hcmstc2ltLjI="}},{"text":"Réading the file and then some more of it."},` +
		`{"toolUse":{"toolUseId":"tooluse_1","name":"read","input":{"path":"/home/dev/a/rather/long/path.go","n":[1,2.5,null]}}}]`
	richInvoke = `[{"type":"thinking","thinking":"I should read the file first, ünderstood","signature":"tidemark-sim.1"},` +
		`{"type":"text","text":"Réading the file and then some more of it."},{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"/home/dev/a.go"}}]`
)

// TestConverseStreamEqualsJSON: what the events add up to is the answer that is no stream.
func TestConverseStreamEqualsJSON(t *testing.T) {
	s := serve(t, Options{})
	body := conv("", says("user", words(sized("a", 1500)), pointLong, words(sized("b", 100)), point))
	steer := map[string]string{simkit.HeaderReply: richConverse, simkit.HeaderPieces: "7"}
	s.do("POST", at(url.PathEscape(bought), "converse"), body, nil) // so that there is something to read
	plain := s.do("POST", at(url.PathEscape(bought), "converse"), body, steer)
	streamed := s.do("POST", at(url.PathEscape(bought), "converse-stream"), body, steer)
	if got := streamed.Header.Get("Content-Type"); streamed.Status != 200 || got != "application/vnd.amazon.eventstream" {
		t.Fatalf("%d %s: %s", streamed.Status, got, streamed.Body)
	}
	got, blocks := map[string]any{}, []any{}
	texts := map[int]string{}
	for _, f := range framed(t, streamed.Body) {
		if f.data["p"] == nil {
			t.Errorf("%s has no padding", f.event)
		}
		index := 0
		if n, ok := f.data["contentBlockIndex"].(float64); ok {
			index = int(n)
			for len(blocks) <= index {
				blocks = append(blocks, map[string]any{})
			}
		}
		switch f.event {
		case "messageStart":
			got["output"] = map[string]any{"message": map[string]any{"role": f.data["role"]}}
		case "contentBlockStart":
			blocks[index] = f.data["start"]
		case "contentBlockDelta":
			gatherDelta(blocks[index].(map[string]any), objectOf(f.data, "delta"), texts, index)
		case "contentBlockStop":
			if use := objectOf(blocks[index].(map[string]any), "toolUse"); len(use) > 0 {
				use["input"] = decoded(t, []byte(texts[index]))
			}
		case "messageStop":
			got["stopReason"] = f.data["stopReason"]
		case "metadata":
			got["usage"], got["metrics"] = f.data["usage"], f.data["metrics"]
		default:
			t.Errorf("event %s", f.event)
		}
	}
	objectOf(objectOf(got, "output"), "message")["content"] = blocks
	if diff := cmp.Diff(decoded(t, plain.Body), got); diff != "" {
		t.Error(diff)
	}
	if usage := objectOf(decoded(t, plain.Body), "usage"); usage["cacheReadInputTokens"] != 1600.0 || usage["inputTokens"] != 0.0 {
		t.Errorf("usage %v", usage)
	}
	first := wired(s.sim.Requests()[0].Usage)
	if first.Write != 1600 || !cmp.Equal(first.Details, []cacheDetail{{"1h", 1500}, {"5m", 100}}) || first.Total != first.Write+first.Output {
		t.Errorf("usage %+v", first)
	}
}

// gatherDelta adds a delta to a block.
func gatherDelta(block, delta map[string]any, texts map[int]string, index int) {
	if text, ok := delta["text"].(string); ok {
		was, _ := block["text"].(string)
		block["text"] = was + text
		return
	}
	if use := objectOf(delta, "toolUse"); len(use) > 0 {
		texts[index] += use["input"].(string)
		return
	}
	reasoning := objectOf(delta, "reasoningContent")
	if data, ok := reasoning["redactedContent"]; ok {
		block["reasoningContent"] = map[string]any{"redactedContent": data}
		return
	}
	if block["reasoningContent"] == nil {
		block["reasoningContent"] = map[string]any{"reasoningText": map[string]any{}}
	}
	thought := objectOf(objectOf(block, "reasoningContent"), "reasoningText")
	for name, value := range reasoning {
		was, _ := thought[name].(string)
		thought[name] = was + value.(string)
	}
}

// TestInvokeStream: the chunks hold the events of the model, and Bedrock's figures in the last.
func TestInvokeStream(t *testing.T) {
	s := serve(t, Options{})
	body := inv("", `{"role":"user","content":[{"type":"text","text":"`+sized("a", 1500)+`","cache_control":{"type":"ephemeral"}}]}`)
	steer := map[string]string{simkit.HeaderReply: richInvoke}
	plain := s.do("POST", at(sonnet, "invoke"), body, steer)
	for name, want := range map[string]string{"Input-Token-Count": "0", "Cache-Write-Input-Token-Count": "1500", "Cache-Read-Input-Token-Count": "0"} {
		if got := plain.Header.Get("X-Amzn-Bedrock-" + name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	streamed := s.do("POST", at(sonnet, "invoke-with-response-stream"), body, steer)
	list := framed(t, streamed.Body)
	var blocks []map[string]any
	for i, f := range list {
		if f.event != "chunk" {
			t.Fatalf("event %s", f.event)
		}
		var c chunk
		if raw, err := json.Marshal(f.data); err != nil || json.Unmarshal(raw, &c) != nil {
			t.Fatal("no bytes in a chunk")
		}
		e := decoded(t, c.Bytes)
		delta := objectOf(e, "delta")
		switch e["type"] {
		case "message_start":
			if usage := objectOf(objectOf(e, "message"), "usage"); i != 0 || usage["cache_read_input_tokens"] != 1500.0 {
				t.Errorf("event %d: %v", i, e)
			}
		case "content_block_start":
			blocks = append(blocks, objectOf(e, "content_block"))
		case "content_block_delta":
			b := blocks[int(e["index"].(float64))]
			for name, value := range delta {
				if was, ok := b[name].(string); ok && name != "type" {
					b[name] = was + value.(string)
				} else if name == "partial_json" {
					b[name] = value
				}
			}
		case "message_stop":
			metrics := objectOf(e, "amazon-bedrock-invocationMetrics")
			if i != len(list)-1 || metrics["cacheReadInputTokenCount"] != 1500.0 || metrics["outputTokenCount"] == 0.0 {
				t.Errorf("event %d: %v", i, e)
			}
		}
	}
	for _, b := range blocks {
		if input, ok := b["partial_json"].(string); ok {
			b["input"] = decoded(t, []byte(input))
			delete(b, "partial_json")
		}
	}
	raw, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []any
	if err := errors.Join(json.Unmarshal(raw, &got), json.Unmarshal([]byte(richInvoke), &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || !cmp.Equal(decoded(t, plain.Body)["content"], any(want)) {
		t.Error(diff)
	}
}

// TestErrorsInTheirForm: a message, and the type in a header, also where a stream was asked for.
func TestErrorsInTheirForm(t *testing.T) {
	s := serve(t, Options{})
	for operation := range operations {
		a := s.do("POST", at(sonnet, operation), []byte(`{}`), nil)
		kind, rest, _ := strings.Cut(a.Header.Get("X-Amzn-Errortype"), ":")
		if v := decoded(t, a.Body); a.Status != 400 || kind != "ValidationException" || rest == "" || len(v) != 1 || v["message"] == "" {
			t.Errorf("%s: %d %v %s", operation, a.Status, a.Header, a.Body)
		}
		if a.Header.Get("X-Amzn-Requestid") == "" {
			t.Errorf("%s has no request id", operation)
		}
	}
	if a := s.do("GET", "/model", nil, nil); a.Status != 404 || !strings.HasPrefix(a.Header.Get("X-Amzn-Errortype"), "UnknownOperationException") {
		t.Errorf("%d %v", a.Status, a.Header)
	}
	var lines []map[string]any
	if err := json.Unmarshal(s.do("GET", "/sim/requests", nil, nil).Body, &lines); err != nil || len(lines) != len(operations)+1 {
		t.Errorf("%d lines (%v)", len(lines), err)
	}
	if a := s.do("POST", "/sim/reset", nil, nil); a.Status != 204 || len(s.sim.Requests()) != 0 {
		t.Errorf("%d after a reset", a.Status)
	}
}

// TestManyAtOnce: a simulator takes requests from everywhere.
func TestManyAtOnce(t *testing.T) {
	s := New(Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				s.Call(at(sonnet, "converse"), conv("", says("user", words(sized("a", 1500)), point)), nil, start)
				s.Cached(at(sonnet, "converse"), conv("", says("user", words(sized("a", 1500)), point)), start)
				s.Holds("x", start)
			}
		})
	}
	all.Wait()
	read := 0
	for _, rec := range s.Requests() {
		read += min(rec.Usage.Read, 1)
	}
	if read != 8*20-1 { // all but the first
		t.Errorf("%d requests read", read)
	}
}

// TestScript: a script answers in the form of the API that is asked, with ids made where it has none.
func TestScript(t *testing.T) {
	s := New(Options{Reply: func(req simkit.Request) (json.RawMessage, bool) {
		if _, ok := req.Body["anthropic_version"]; ok {
			return json.RawMessage(`[{"type":"tool_use","name":"read","input":{}}]`), true
		}
		return json.RawMessage(`[{"toolUse":{"name":"read","input":{}}}]`), true
	}})
	for i, operation := range []string{"converse", "invoke"} {
		body := [][]byte{conv("", hi), inv("", hiThere)}[i]
		res := must(t, s, at(sonnet, operation), body, nil, start)
		if len(res.Content) != 1 || !bytes.Contains(res.Content[0], []byte("_sim")) || res.StopReason != "tool_use" || res.Usage.Output == 0 {
			t.Errorf("%s: %s %s", operation, res.Content, res.StopReason)
		}
	}
	for i, script := range []string{`{}`, `[`, `[{"text":""}]`, `[{"x":1}]`} {
		if res := s.Call(at(sonnet, "converse"), conv("", hi), answer(script), start); res.Err == nil || !strings.HasPrefix(res.Err.Message, simkit.HeaderReply) {
			t.Errorf("script %s is answered: %v", strconv.Itoa(i), res.Err)
		}
	}
}
