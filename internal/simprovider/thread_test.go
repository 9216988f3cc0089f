package simprovider

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// threaded are the headers of a request in a thread; more are names and values in turn.
func threaded(more ...string) http.Header {
	h := http.Header{"Anthropic-Beta": {betaThreads}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

const creates = `"thread":{"type":"create"},`

func goesOn(id string) string {
	return fmt.Sprintf(`"thread":{"type":"continue","previous_message_id":%q},`, id)
}

// TestThread: a continuation carries the new messages only, and is billed and cached as the whole conversation.
func TestThread(t *testing.T) {
	s, head := New(Options{}), `"tools":[{"name":"Read","input_schema":{}}],"system":[`+sized("s", 600, mark1h)+`],`
	call := threaded(simkit.HeaderReply, "["+use("a")+"]")
	first := must(t, s, conv(modern, creates+head, user(sized("a", 600, mark5m))), call, start)
	total := first.Prompt
	usage(t, first, 0, total, 0, 0)
	second := must(t, s, conv(modern, goesOn(first.ID), user(result("a", mark5m))), threaded(), start.Add(time.Minute))
	added := second.Prompt - total
	usage(t, second, total, added, 0, 0)
	third := must(t, s, conv(modern, goesOn(second.ID), user(sized("b", 50, mark5m))), threaded(), start.Add(2*time.Minute))
	usage(t, third, second.Prompt, third.Prompt-second.Prompt, 0, 0)

	// The client sends it whole again: byte for byte the same prompt.
	whole := []string{
		user(sized("a", 600)), assistant(blocks(first)...), user(result("a")), assistant(blocks(second)...), user(sized("b", 50, mark5m)),
	}
	again := must(t, s, conv(modern, creates+head, whole...), threaded(), start.Add(3*time.Minute))
	usage(t, again, third.Prompt, 0, 0, 0)
}

// TestThreadLifetime: a thread can be continued for five minutes after the last answer that was stored for it, once.
func TestThreadLifetime(t *testing.T) {
	s := New(Options{})
	body := func(members string) []byte { return conv(modern, members, user(hi)) }
	slow := threaded(simkit.HeaderDelay, "2s")
	first := must(t, s, body(creates), slow, start)
	refused := func(members string, h http.Header, at time.Time, code string) {
		t.Helper()
		res := s.Call(body(members), h, at)
		if res.Err == nil || !cmp.Equal(res.Err.Details, any(map[string]string{"error_code": code})) || (res.Status == 404) != (code == "thread_not_found") {
			t.Errorf("%s: %+v, want %s", members, res.Err, code)
		}
	}
	refused(goesOn(first.ID), threaded(), start.Add(threadLife+2*time.Second+1), "thread_not_found")
	refused(goesOn(first.ID), threaded("X-Api-Key", "other"), start, "thread_not_found")
	refused(goesOn("msg_unknown"), threaded(), start, "thread_not_found")
	if res := s.Call(body(goesOn(first.ID)), threaded(simkit.HeaderStatus, "529"), start); res.Status != 529 {
		t.Errorf("%+v", res)
	}
	second := must(t, s, body(goesOn(first.ID)), threaded(), start.Add(threadLife+2*time.Second)) // an answer that failed stored nothing
	refused(goesOn(first.ID), threaded(), start.Add(threadLife), "thread_already_continued")
	must(t, s, body(goesOn(second.ID)), threaded(), second.First.Add(threadLife))
	refused(goesOn(must(t, s, body(""), threaded(), start).ID), threaded(), start, "thread_not_found")
	s.Reset()
	refused(goesOn(second.ID), threaded(), second.First, "thread_not_found")

	s = New(Options{NoThreads: true})
	refused(creates, threaded(), start, "thread_unsupported_request")
	s = New(Options{})
	res := s.Call([]byte(`{"model":"claude-opus-4-8","max_tokens":0,`+creates+`"messages":[`+user(hi)+`]}`), threaded(), start)
	if res.Err == nil || !strings.HasSuffix(res.Err.Message, "Send the whole conversation.") {
		t.Errorf("%v", res.Err)
	}
}

// TestThreadRefusals: what a thread does not take, in words.
func TestThreadRefusals(t *testing.T) {
	const replay = ` Replay the full conversation with thread: {"type": "create"} to start a new Thread.`
	s := New(Options{})
	more := `"thinking":{"type":"adaptive"},"output_config":{"effort":"low"},`
	id := must(t, s, conv(modern, creates+more+`"metadata":{"a":1},`, user(hi)), threaded(), start).ID
	for want, c := range map[string]struct {
		body   []byte
		header http.Header
	}{
		"thread: Extra inputs are not permitted":                                   {conv(modern, creates, user(hi)), http.Header{}},
		"thread: Input should be an object":                                        {conv(modern, `"thread":"create",`, user(hi)), nil},
		"thread: Unable to extract tag using discriminator 'type'":                 {conv(modern, `"thread":{},`, user(hi)), nil},
		"thread.continue.previous_message_id: Field required":                      {conv(modern, `"thread":{"type":"continue"},`, user(hi)), nil},
		"thread.continue.previous_message_id: Input should be the id of a message": {conv(modern, goesOn("x"), user(hi)), nil},
		"thread.create.previous_message_id: Extra inputs are not permitted": {
			conv(modern, `"thread":{"type":"create","previous_message_id":"msg_1"},`, user(hi)), nil,
		},
		"thread: Input tag 'fork' found using 'type' does not match any of the expected tags: 'create', 'continue'": {
			conv(modern, `"thread":{"type":"fork"},`, user(hi)), nil,
		},
		"No thread state was found for the requested `previous_message_id`." + replay: {conv(modern, goesOn("msg_x"), user(hi)), nil},
		"thread: the request does not match the thread; differing field(s): model, thinking, output_config, cache_control." + replay: {
			conv(binding, goesOn(id)+`"output_config":{"effort":"high"},"cache_control":{"type":"ephemeral"},`, user(hi)), nil,
		},
		"thread: the request does not match the thread; differing field(s): anthropic-beta." + replay: {
			conv(modern, goesOn(id)+more, user(hi)), http.Header{"Anthropic-Beta": {"new, " + betaThreads}},
		},
		"system: Extra inputs are not permitted":     {conv(modern, goesOn(id)+more+`"system":"s",`, user(hi)), nil},
		"tools: Extra inputs are not permitted":      {conv(modern, goesOn(id)+more+`"tools":[],`, user(hi)), nil},
		"messages: at least one message is required": {conv(modern, goesOn(id)+more), nil},
		"messages.2.content.0.type: Field required":  {conv(modern, goesOn(id)+more, user(`{}`)), nil},
		"A maximum of 4 blocks with cache_control may be provided. Found 5.": {
			conv(modern, goesOn(id)+more, user(strings.Repeat(sized("m", 9, mark5m)+",", 4)+sized("m", 9, mark5m))), nil,
		},
	} {
		if c.header == nil {
			c.header = threaded()
		}
		res := s.Call(c.body, c.header, start)
		if res.Err == nil || res.Err.Message != want {
			t.Errorf("got %v, want %s", res.Err, want)
		}
	}
	// Nothing of this ended the thread, and what is not fixed may change.
	must(t, s, conv(modern, goesOn(id)+more+`"stream":true,"metadata":{"a":2},`, user(hi)), threaded(), start)
}

// TestThreadBinding: thinking in a stored answer fits its prefix, and tokens of a continuation can be counted.
func TestThreadBinding(t *testing.T) {
	s := New(Options{})
	script := threaded(simkit.HeaderReply, `[`+thinking("hm", "")+`,`+use("a")+`]`)
	first := must(t, s, conv(binding, creates, user(hi)), script, start)
	counted := s.serve(pathCount, conv(binding, goesOn(first.ID), user(result("a"))), threaded(), start)
	second := must(t, s, conv(binding, goesOn(first.ID), user(result("a"))), threaded(), start)
	whole := must(t, s, conv(binding, "", user(hi), assistant(blocks(first)...), user(result("a"))), nil, start)
	if counted.Prompt != whole.Prompt || second.Prompt != whole.Prompt || second.Transformations != nil {
		t.Errorf("counted %d, continued %d, whole %d", counted.Prompt, second.Prompt, whole.Prompt)
	}
}

// TestThreadEqualsWhole: a conversation in a thread, with replays where it expired, is billed as the same conversation sent
// whole each time.
func TestThreadEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, at := New(Options{}), New(Options{}), start
		head := `"system":[` + sized("s", 600, mark1h) + `],`
		var history []string
		id := ""
		var until time.Time
		for n := range rapid.IntRange(1, 12).Draw(t, "turns") {
			text := sized(fmt.Sprint("turn", n), rapid.IntRange(10, 700).Draw(t, "size"))
			marker := rapid.SampledFrom([]string{"", mark5m, mark1h}).Draw(t, "marker")
			fresh := user(text[:len(text)-1] + marker + "}")
			at = at.Add(rapid.SampledFrom([]time.Duration{time.Second, threadLife, threadLife + 1}).Draw(t, "pause"))
			whole := append(append([]string(nil), history...), fresh)
			want := must(t, b, conv(binding, head, whole...), nil, at)
			body := conv(binding, goesOn(id), fresh)
			if id == "" || at.After(until) {
				if id != "" && a.Call(body, threaded(), at).Status != 404 {
					t.Fatalf("turn %d: the thread has not expired", n)
				}
				body = conv(binding, creates+head, whole...)
			}
			got := must(t, a, body, threaded(), at)
			if got.Usage != want.Usage || got.Prompt != want.Prompt {
				t.Fatalf("turn %d: billed %+v, the whole conversation %+v", n, got.Usage, want.Usage)
			}
			history = append(history, user(text), assistant(blocks(want)...))
			id, until = got.ID, at.Add(threadLife)
		}
	})
}
