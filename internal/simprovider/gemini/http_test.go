package gemini

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

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

// wire is an answer or a chunk as a client reads it.
type wire struct {
	Candidates []struct {
		Content struct {
			Role  string
			Parts []map[string]any
		}
		FinishReason string
		Index        int
	}
	UsageMetadata map[string]any
	ModelVersion  string
	ResponseID    string
}

func decode[T any](t *testing.T, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %.500s", err, raw)
	}
	return v
}

const richReply = `[{"text":"I should read the file first, ünderstood","thought":true},{"text":"Réading the file and then some more of it."},` +
	`{"functionCall":{"name":"read","args":{"path":"/home/dev/a/rather/long/path.go","n":[1,2.5,null]}}},{"functionCall":{"name":"list","args":{}}}]`

// joined puts the chunks of a stream together, as clients do: texts of one kind that follow each other are one.
func joined(t *testing.T, chunks []wire) wire {
	t.Helper()
	out := chunks[len(chunks)-1]
	var list []map[string]any
	for i, c := range chunks {
		if (c.Candidates[0].FinishReason != "") != (i == len(chunks)-1) || c.ResponseID != out.ResponseID {
			t.Errorf("chunk %d of %d: %+v", i+1, len(chunks), c)
		}
		for _, p := range c.Candidates[0].Content.Parts {
			text, ok := p["text"].(string)
			if n := len(list); ok && n > 0 && list[n-1]["text"] != nil && list[n-1]["thought"] == p["thought"] {
				was, _ := list[n-1]["text"].(string)
				p["text"] = was + text
				list[n-1] = p
				continue
			}
			list = append(list, p)
		}
	}
	out.Candidates[0].Content.Parts = list
	return out
}

// TestStreamsEqualJSON: what the chunks add up to is the answer that is no stream, as events and as an array, in any pieces.
func TestStreamsEqualJSON(t *testing.T) {
	for name, script := range map[string]string{"rich": richReply, "text": `[{"text":"Réading the file and then some more of it."}]`, "nothing": `[]`} {
		for _, path := range []func(string, string) string{at, vertex} {
			s := serve(t, Options{})
			body := conv("", says("user", sized("a", 5000)))
			steer := map[string]string{simkit.HeaderReply: script, simkit.HeaderPieces: "7"}
			s.do("POST", path(modern, methodGenerate), body, nil) // so that there is something to read
			plain := s.do("POST", path(modern, methodGenerate), body, steer)
			want := decode[wire](t, plain.Body)
			events := s.do("POST", path(modern, methodStream)+"?alt=sse", body, steer)
			if got := events.Header.Get("Content-Type"); got != "text/event-stream" {
				t.Errorf("content type %s", got)
			}
			var chunks []wire
			for event := range strings.SplitSeq(strings.TrimSuffix(string(events.Body), "\r\n\r\n"), "\r\n\r\n") {
				data, ok := strings.CutPrefix(event, "data: ")
				if !ok {
					t.Fatalf("event %q", event)
				}
				chunks = append(chunks, decode[wire](t, []byte(data)))
			}
			array := decode[[]wire](t, s.do("POST", path(modern, methodStream), body, steer).Body)
			for _, list := range [][]wire{chunks, array} {
				got := joined(t, list)
				got.ResponseID = want.ResponseID
				for i, p := range got.Candidates[0].Content.Parts { // signatures differ from answer to answer
					if wanted := want.Candidates[0].Content.Parts[i]; p["thoughtSignature"] != nil && wanted["thoughtSignature"] != nil {
						p["thoughtSignature"] = wanted["thoughtSignature"]
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			u := want.UsageMetadata
			if u["promptTokenCount"] != 5000.0 || u["cachedContentTokenCount"] != 5000.0 || want.ModelVersion != modern || want.ResponseID == "" {
				t.Errorf("%s: %+v", name, want)
			}
			if rec := s.sim.Requests()[1]; name == "rich" && u["totalTokenCount"] != float64(5000+rec.Usage.Output+rec.Usage.Thoughts) || u["thoughtsTokenCount"] == 0.0 {
				t.Errorf("%s: %v of %+v", name, u, rec.Usage)
			}
		}
	}
}

// TestStreamedAnswerComesBack: what a client puts together from chunks is accepted as it is, and one by one.
func TestStreamedAnswerComesBack(t *testing.T) {
	s := serve(t, Options{})
	for _, script := range []string{richReply, `[{"text":"Réading the file and then some more of it."}]`} {
		array := decode[[]wire](t, s.do("POST", at(modern, methodStream), conv("", hi), map[string]string{simkit.HeaderReply: script}).Body)
		var single []string
		for _, c := range array {
			for _, p := range c.Candidates[0].Content.Parts {
				raw, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				single = append(single, string(raw))
			}
		}
		next := hi
		if script == richReply {
			next = says("user", response("read"), response("list"))
		}
		must(t, s.sim, at(modern, methodGenerate), conv("", hi, says("model", single...), next), nil, start)
	}
}

// TestCountTokens: the prompt's tokens, of either form of the body, and nothing is cached.
func TestCountTokens(t *testing.T) {
	s := serve(t, Options{})
	body := conv("", says("user", sized("a", 5000)))
	nested := []byte(`{"generateContentRequest":{"model":"models/x",` + string(body[1:]) + `}`)
	for path, b := range map[string][]byte{at(modern, methodCount): body, vertex(modern, methodCount): body, at(plain, methodCount): nested} {
		got := decode[map[string]any](t, s.do("POST", path, b, nil).Body)
		if got["totalTokens"] != 5000.0 {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := must(t, s.sim, at(modern, methodGenerate), body, nil, start).Usage.Read; got != 0 {
		t.Errorf("%d read", got)
	}
}

// TestErrorsInTheirForm: an object, and in a stream that is an array an array of it.
func TestErrorsInTheirForm(t *testing.T) {
	s := serve(t, Options{})
	type failure struct {
		Error struct {
			Code    int
			Message string
			Status  string
			Details []map[string]any
		}
	}
	var list []failure
	for _, path := range []string{at(plain, methodGenerate), at(plain, methodStream) + "?alt=sse", at(plain, methodCount)} {
		a := s.do("POST", path, conv(`"stream":true,`, hi), nil)
		if list = append(list, decode[failure](t, a.Body)); a.Status != 400 {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
	list = append(list, decode[[]failure](t, s.do("POST", at(plain, methodStream), conv(`"stream":true,`, hi), nil).Body)...)
	for _, f := range list {
		if f.Error.Code != 400 || f.Error.Status != "INVALID_ARGUMENT" || f.Error.Message == "" || len(f.Error.Details) != 1 {
			t.Errorf("%+v", f)
		}
	}
	if a := s.do("GET", "/v1beta/models", nil, nil); a.Status != 404 || decode[failure](t, a.Body).Error.Status != "NOT_FOUND" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if lines := decode[[]map[string]any](t, s.do("GET", "/sim/requests?body=1", nil, nil).Body); len(lines) != 5 || lines[0]["body"] == nil {
		t.Errorf("%d lines", len(lines))
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
				s.Call(at(plain, methodGenerate), conv("", says("user", sized("a", 2500))), nil, start)
				s.Cached(at(plain, methodGenerate), conv("", says("user", sized("a", 2500))), start)
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

// TestScript: a script answers, and what is no list of parts is refused.
func TestScript(t *testing.T) {
	s := New(Options{Reply: func(req simkit.Request) (json.RawMessage, bool) {
		return json.RawMessage(`[{"text":"` + req.Path[:8] + `"}]`), req.Body["contents"] != nil
	}})
	if res := must(t, s, at(plain, methodGenerate), conv("", hi), nil, start); len(res.Parts) != 1 || string(res.Parts[0]) != `{"text":"/v1beta/"}` {
		t.Errorf("%s", res.Parts)
	}
	for _, script := range []string{`{}`, `[`, `[1]`, `[{"x":1}]`} {
		if res := s.Call(at(plain, methodGenerate), conv("", hi), answerWith(script), start); res.Err == nil || !strings.HasPrefix(res.Err.Message, simkit.HeaderReply) {
			t.Errorf("script %s: %v", script, res.Err)
		}
	}
}
