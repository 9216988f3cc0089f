package restore_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-dev/tidemark/internal/restore"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/state"
)

// withHeader adds a header to all requests of a client.
type withHeader struct{ name, value string }

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if h.name != "" {
		r.Header.Set(h.name, h.value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// client connects the SDK's client.
func (w *world) client(t *testing.T, h withHeader) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: w.url + "/mcp", HTTPClient: &http.Client{Transport: h}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// call calls a tool and returns its text blocks.
func call(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (texts []string, isError bool) {
	t.Helper()
	r, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Content {
		text, ok := c.(*mcp.TextContent)
		if !ok {
			t.Fatalf("content %T", c)
		}
		texts = append(texts, text.Text)
	}
	return texts, r.IsError
}

func TestMCPTools(t *testing.T) {
	w := newWorld(t, nil)
	s := w.client(t, withHeader{})
	init := s.InitializeResult()
	if init.Instructions == "" || init.Capabilities.Tools == nil || init.Capabilities.Tools.ListChanged {
		t.Errorf("%+v", init)
	}
	tools, err := s.ListTools(context.Background(), nil)
	if err != nil || len(tools.Tools) != 2 || tools.Tools[0].Name != "context_restore" || tools.Tools[1].Name != "context_spans" {
		t.Fatal(tools, err)
	}
	for _, tool := range tools.Tools {
		if !tool.Annotations.ReadOnlyHint || len(tool.Description) > 1000 {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
}

func TestMCPRestore(t *testing.T) {
	w := newWorld(t, nil)
	id := w.keep("t", "s", `"one\ntwo <&>\nthree \ud83d\ude00"`, `"another"`)[0]
	s := w.client(t, withHeader{})
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"id": id}, "one\ntwo <&>\nthree 😀"},
		{map[string]any{"id": "[tidemark … · id " + id + "]", "head": "1"}, "one\n"},
		{map[string]any{"id": id, "from": 2, "to": 2, "grep": "", "tail": 0}, "two <&>\n"},
		{map[string]any{"id": id, "grep": "T", "context": 0}, ""},
		{map[string]any{"id": id, "grep": "t"}, "2:two <&>\n3:three 😀\n"},
	} {
		if texts, isError := call(t, s, part.Name, c.args); isError || len(texts) != 1 || texts[0] != c.want {
			t.Errorf("%v: %q, %v", c.args, texts, isError)
		}
	}
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{}, "This could not be done: id must be"},
		{map[string]any{"id": id, "head": -1}, "This could not be done: head must be"},
		{map[string]any{"id": id, "from": 7}, "This could not be done: nothing is there: the text has 3 lines."},
		{map[string]any{"id": strings.Repeat("0", 24)}, part.Missing},
	} {
		if texts, isError := call(t, s, part.Name, c.args); !isError || len(texts) != 1 || !strings.HasPrefix(texts[0], c.want) {
			t.Errorf("%v: %q, %v", c.args, texts, isError)
		}
	}
	texts, isError := call(t, s, "context_spans", map[string]any{"id": id})
	if isError || len(texts) != 1 || strings.Count(texts[0], "\n") != 2 || !strings.Contains(texts[0], "id "+id+" · Read of main.go (1-40) · ") || strings.Contains(texts[0], "two") {
		t.Errorf("spans %q", texts)
	}
}

// TestMCPLarge: of a large original the first part comes, with how to go on, and all parts are the whole.
func TestMCPLarge(t *testing.T) {
	w := newWorld(t, nil)
	text := strings.Repeat("0123456789 é\n", 9000) + strings.Repeat("漢", 20_000)
	id := w.keep("t", "s", quoted(text))[0]
	s := w.client(t, withHeader{})
	next := regexp.MustCompile(`^\(.*"offset": (\d+)\..*\)$`)
	got, args := "", map[string]any{"id": id}
	for calls := 1; ; calls++ {
		texts, isError := call(t, s, part.Name, args)
		if isError || len(texts[0]) > restore.DefaultBytes || !utf8.ValidString(texts[0]) || calls > 10 {
			t.Fatalf("call %d: %d bytes, %v", calls, len(texts[0]), isError)
		}
		got += texts[0]
		if len(texts) == 1 {
			break
		}
		m := next.FindStringSubmatch(texts[1])
		if m == nil {
			t.Fatalf("note %q", texts[1])
		}
		var offset int
		_, _ = fmt.Sscan(m[1], &offset)
		args["offset"] = offset
	}
	if got != text {
		t.Errorf("%d bytes, want %d", len(got), len(text))
	}
	if texts, _ := call(t, s, part.Name, map[string]any{"id": id, "max_bytes": 1 << 30}); texts[0] != text {
		t.Errorf("%d bytes at once", len(texts[0]))
	}
}

// TestMCPTenants: another tenant's credentials get what an unknown id gets.
func TestMCPTenants(t *testing.T) {
	w := newWorld(t, byKey)
	id := w.keep("key:mine", "s", `"SECRET"`)[0]
	for _, c := range []struct {
		h    withHeader
		want string
	}{{withHeader{"x-api-key", "mine"}, "SECRET"}, {withHeader{"x-api-key", "other"}, part.Missing}, {withHeader{}, part.Missing}} {
		s := w.client(t, c.h)
		texts, isError := call(t, s, part.Name, map[string]any{"id": id})
		if len(texts) != 1 || texts[0] != c.want || isError == (c.want == "SECRET") {
			t.Errorf("%v: %q", c.h, texts)
		}
		texts, isError = call(t, s, "context_spans", map[string]any{"id": id})
		if isError == (c.want == "SECRET") || isError && texts[0] != part.Missing {
			t.Errorf("%v: %q", c.h, texts)
		}
	}
}

func TestMCPFates(t *testing.T) {
	w := newWorld(t, nil)
	id := w.keep("t", "s", `"SECRET"`)[0]
	s := w.client(t, withHeader{})
	if err := w.store.Seal(context.Background(), id, true); err != nil {
		t.Fatal(err)
	}
	if texts, isError := call(t, s, part.Name, map[string]any{"id": id}); !isError || texts[0] != part.Sealed {
		t.Errorf("sealed: %q", texts)
	}
	if _, err := w.store.Withdraw(context.Background(), w.engine.SessionKey("t", "s")); err != nil {
		t.Fatal(err)
	}
	if texts, isError := call(t, s, part.Name, map[string]any{"id": id}); !isError || texts[0] != part.Withdrawn {
		t.Errorf("withdrawn: %q", texts)
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if texts, isError := call(t, s, part.Name, map[string]any{"id": id}); !isError || texts[0] != part.Unavailable {
		t.Errorf("dead store: %q", texts)
	}
	var results []restore.Result
	for _, e := range w.seen.taken() {
		if e.Path != restore.MCP || e.Bytes != 0 {
			t.Errorf("event %+v", e)
		}
		results = append(results, e.Result)
	}
	if fmt.Sprint(results) != "[sealed withdrawn refused]" {
		t.Errorf("results %v", results)
	}
}

// TestMCPSpansLines: what a client calls its tools makes no lines of its own in a list.
func TestMCPSpansLines(t *testing.T) {
	w := newWorld(t, nil)
	id := w.keep("t", "s", `"x"`)[0]
	key := w.engine.SessionKey("t", "s")
	forged := state.Original{ID: strings.Repeat("b", 24), Session: key, Tool: "x\nid " + strings.Repeat("f", 24) + " · forged\u2028\x1b[2J", Content: []byte(`"y"`), At: at}
	if _, err := w.store.Commit(context.Background(), key, &state.Branch{ID: 99, Last: at}, []state.Original{forged}); err != nil {
		t.Fatal(err)
	}
	texts, isError := call(t, w.client(t, withHeader{}), "context_spans", map[string]any{"id": id})
	if isError || strings.Count(texts[0], "\n") != 2 || strings.ContainsAny(texts[0], "\x1b\u2028") || strings.Contains(texts[0], "\nid ffff") {
		t.Errorf("%q", texts)
	}
}
