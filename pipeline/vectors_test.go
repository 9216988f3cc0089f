package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

const toolsMember = `"tools":[{"name":"Read","input_schema":{"type":"object"}}],`

// grafted gives a case's body what makes its border visible: every message gets a result at its beginning, and the head
// becomes large enough that whatever is left out, the rest is worth caching.
func grafted(body []byte) []byte {
	text := strings.Replace(string(body), "You are an agent.", strings.Repeat("You are an agent. ", 2000), 1)
	parts := strings.Split(text, `"content":[`)
	for i := range parts[1:] {
		parts[i+1] = fmt.Sprintf(`"content":[{"type":"tool_use","id":"r%d","name":"Read","input":{"file_path":"/w/%d"}},`+
			`{"type":"tool_result","tool_use_id":"r%d","content":%s},`, i, i, i, quoted(fmt.Sprint(i, code))) + parts[i+1]
	}
	return []byte(strings.Join(parts, ""))
}

// opening is a body cut behind its first message, as it must have been sent before.
func opening(t *testing.T, body []byte) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	var messages []json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(members["messages"], &messages); err != nil {
		t.Fatal(err)
	}
	end := bytes.Index(body, messages[0]) + len(messages[0])
	return append(body[:end:end], "]}"...)
}

// TestPrefixVectors plays testdata/lifecycle/prefix: after the first request, a filter that would replace every result gets
// none of those in the messages that the case calls covered, and each one behind them, as long as the cache is warm. What
// the response reports moves that border nowhere.
func TestPrefixVectors(t *testing.T) {
	cases, err := vectors.Prefixes()
	if err != nil {
		t.Fatal(err)
	}
	greedy := &pipeline.Config{Filters: []filters.Filter{eager{}}}
	for _, c := range cases {
		for _, warm := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/warm=%v", c.Name, warm), func(t *testing.T) {
				e, first, second := newEngine(t, true), grafted(c.First), grafted(c.Second)
				e.Request(t.Context(), ask(opening(t, first), &pipeline.Config{}, epoch))
				e.Request(t.Context(), ask(first, &pipeline.Config{}, epoch.Add(time.Second)))
				at, covered := epoch.Add(2*time.Second), c.Covered
				if !warm {
					at, covered = at.Add(cold), 0
				}
				o := e.Request(t.Context(), ask(second, greedy, at))
				if o.Body == nil || o.Undeclared {
					t.Fatalf("level %v, gate %q, %v", o.Level, o.Gate, o.Gates)
				}
				before, after := contents(second), contents(o.Body)
				for m := range len(before) {
					id := fmt.Sprint("r", m)
					if stays := before[id] == after[id]; stays != (m < covered) {
						t.Errorf("%s: message %d of %d: unchanged %v, covered are %d", c.Shows, m, len(before), stays, covered)
					}
				}
			})
		}
	}
}

// noticing is a store that remembers under which key something was written.
type noticing struct {
	state.Store
	key state.SessionKey
}

func (n *noticing) Merge(ctx context.Context, k state.SessionKey, b []*state.Branch) (uint64, error) {
	n.key = k
	return n.Store.Merge(ctx, k, b)
}

// TestReplayVectors plays testdata/lifecycle/replay: what was decided in the first request is in force, and stands in the
// outbound of the second.
func TestReplayVectors(t *testing.T) {
	cases, err := vectors.Replays()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			first := bytes.Replace(c.First, []byte(`"messages"`), []byte(toolsMember+`"messages"`), 1)
			second := bytes.Replace(c.Second, []byte(`"messages"`), []byte(toolsMember+`"messages"`), 1)
			store := &noticing{Store: memory.New()}
			e := engineOn(t, store, time.Time{})
			e.Request(t.Context(), ask(first, &pipeline.Config{}, epoch))
			e.Flush(t.Context())
			decided(t, store, e.Hasher(), first, c.Replacements)

			o := engineOn(t, store, epoch).Request(t.Context(), ask(second, config(t, ""), epoch.Add(time.Minute)))
			want := second
			for call, content := range contents(second) {
				want = bytes.Replace(want, []byte(content), []byte(quoted(c.Replacements[call])), 1)
			}
			if !bytes.Equal(o.Body, want) || o.Replays != len(c.Replacements) {
				t.Errorf("%s: %d replays, gate %q\n%s\nwant\n%s", c.Shows, o.Replays, o.Gate, o.Body, want)
			}
		})
	}
}

// decided puts decisions in force on the only branch that is stored.
func decided(t *testing.T, store *noticing, h *transcript.Hasher, body []byte, texts map[string]string) {
	t.Helper()
	stored, err := store.Load(t.Context(), store.key)
	if err != nil || len(stored.Branches) != 1 {
		t.Fatalf("%d branches (%v)", len(stored.Branches), err)
	}
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	ix.Digest(h)
	b := stored.Branches[0]
	for i := range ix.Results {
		r := &ix.Results[i]
		call := strings.Clone(ix.CallID(r))
		content := ix.Replacement(r, texts[call])
		b.InForce = append(b.InForce, state.Decision{
			Ref: state.ResultRef{Call: call, Block: ix.Blocks[r.Block].Hash}, Msg: r.Msg, Content: content, Out: ix.Replaced(h, r, content),
			Filter: "test", Verdict: "test", At: epoch,
		})
	}
	if _, err := store.Commit(t.Context(), store.key, b, nil); err != nil {
		t.Fatal(err)
	}
}

// TestSessionVectors plays testdata/lifecycle/session: conversations that nothing names are forwarded as they came and share
// nothing.
func TestSessionVectors(t *testing.T) {
	cases, err := vectors.Sessions()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			e := newEngine(t, true)
			for _, body := range [][]byte{c.A, c.B, c.A} {
				r := ask(body, config(t, "always"), epoch)
				r.Session = ""
				o := e.Request(t.Context(), r)
				if string(o.Gate) != c.Gate || o.Body != nil || o.Branch != 0 || o.Session != "" {
					t.Errorf("%s: gate %q, want %q; branch %x of session %q", c.Shows, o.Gate, c.Gate, o.Branch, o.Session)
				}
			}
		})
	}
}
