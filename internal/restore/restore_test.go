package restore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/restore"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
)

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestOriginal(t *testing.T) {
	w := newWorld(t, nil)
	cut := `[{"role":"user","content":"a\n"},{"role":"assistant","content":[{"type":"text","text":"b"}]}]`
	ids := w.keep("t", "s", `"one\ntwo\n"`, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, cut, `"lone \ud800"`, `""`)
	for i, want := range []string{"one\ntwo\n", "a\nb", strings.Replace(cut[1:len(cut)-1], "},{", "}\n{", 1), "lone \uFFFD", ""} {
		r := w.get(ids[i], "")
		r.want(t, http.StatusOK, want)
		for name, value := range map[string]string{
			"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Accept-Ranges": "bytes",
		} {
			if got := r.header.Get(name); got != value {
				t.Errorf("%s: %q", name, got)
			}
		}
		w.get(ids[i], "", "If-None-Match", r.header.Get("ETag")).want(t, http.StatusNotModified, "")
		head := w.ask(http.MethodHead, w.url+"/v1/originals/"+ids[i])
		if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(want)) || head.header.Get("ETag") != r.header.Get("ETag") {
			t.Errorf("HEAD: %+v", head)
		}
	}
	w.get(ids[3], "?raw=1").want(t, http.StatusOK, `"lone \ud800"`)
	w.get(ids[2], "?raw=1").want(t, http.StatusOK, cut)
	w.get(ids[0], "?head=1").want(t, http.StatusOK, "one\n")
	w.get(ids[0], "?tail=1").want(t, http.StatusOK, "two\n")
	w.get(ids[0], "?from=2&to=2").want(t, http.StatusOK, "two\n")
	w.get(ids[0], "?grep=w").want(t, http.StatusOK, "2:two\n")
	w.get(ids[0], "?grep=w&context=1").want(t, http.StatusOK, "1-one\n2:two\n")
	w.get(ids[0], "", "Range", "bytes=4-6").want(t, http.StatusPartialContent, "two")
	w.get(ids[0], "?from=2", "Range", "bytes=-2").want(t, http.StatusPartialContent, "o\n")
	w.get(ids[0], "?from=9").want(t, http.StatusRequestedRangeNotSatisfiable, "nothing is there: the text has 2 lines\n")
	w.get(ids[0], "?max_bytes=4").want(t, http.StatusOK, "one\n")
	if note := w.get(ids[0], "?max_bytes=4").header.Get(restore.NoteHeader); !strings.Contains(note, `"offset": 4`) {
		t.Errorf("note %q", note)
	}
	for _, query := range []string{"?head=x", "?raw=0", "?raw=1&head=1", "?grep=(", "?a=b", "?head=1&head=1", "?%zz", "?head=1;tail=1", "?grep=" + strings.Repeat("a", 5000)} {
		if r := w.get(ids[0], query); r.status != http.StatusBadRequest {
			t.Errorf("%.20s: %d", query, r.status)
		}
	}
}

// TestAnyPart: any text through any part or range equals the naive computation.
func TestAnyPart(t *testing.T) {
	w := newWorld(t, nil)
	bit := rapid.SampledFrom([]string{"\n", "\r\n", "a", "é", "😀", `"`, `\`, "\x00", strings.Repeat("y", 30)})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(bit, 1, 40).Draw(t, "bits"), "")
		content := quoted(text)
		if rapid.Bool().Draw(t, "list") {
			content = `[{"type":"text","text":` + content + `}]`
		}
		id := w.keep("t", "s", content)[0]
		if r := w.get(id, "?raw=1"); r.body != content {
			t.Fatalf("raw %q", r.body)
		}
		lines := strings.SplitAfter(text, "\n")
		n := rapid.IntRange(1, len(lines)).Draw(t, "n")
		if r := w.get(id, fmt.Sprintf("?head=%d", n)); r.body != strings.Join(lines[:n], "") {
			t.Fatalf("head=%d: %q", n, r.body)
		}
		size, all := rapid.IntRange(1, 20).Draw(t, "size"), ""
		for lo := 0; lo < len(text); lo += size {
			r := w.get(id, "", "Range", fmt.Sprintf("bytes=%d-%d", lo, lo+size-1))
			if r.status != http.StatusPartialContent {
				t.Fatalf("range from %d: %d", lo, r.status)
			}
			all += r.body
		}
		if all != text {
			t.Fatalf("ranges give %q, want %q", all, text)
		}
	})
}

// TestLarge: 30 MB come whole and in parts.
func TestLarge(t *testing.T) {
	w := newWorld(t, nil)
	var b strings.Builder
	for i := 0; b.Len() < 30<<20; i++ {
		fmt.Fprintf(&b, "%d\tthe \"quick\" fox\n", i)
	}
	text := b.String()
	id := w.keep("t", "s", quoted(text))[0]
	if got := w.get(id, "").body; got != text {
		t.Fatalf("%d bytes of %d", len(got), len(text))
	}
	var parts strings.Builder
	for lo := 0; lo < len(text); lo += 8 << 20 {
		parts.WriteString(w.get(id, "", "Range", fmt.Sprintf("bytes=%d-%d", lo, lo+8<<20-1)).body)
	}
	if parts.String() != text {
		t.Fatal("ranges do not make up the whole")
	}
	w.get(id, "?from=700000&to=700000").want(t, http.StatusOK, "699999\tthe \"quick\" fox\n")
	w.get(id, "?grep=%5E654321%09").want(t, http.StatusOK, "654322:654321\tthe \"quick\" fox\n")
}

// TestFates: who could have had an original is told why not; others are not.
func TestFates(t *testing.T) {
	for _, tenant := range []func(*http.Request) (string, bool){nil, byKey} {
		w := newWorld(t, tenant)
		ids := w.keep("key:mine", "s", `"kept"`, `"sealed"`)
		gone := w.keep("key:mine", "s2", `"withdrawn"`)[0]
		if err := w.store.Seal(context.Background(), ids[1], true); err != nil {
			t.Fatal(err)
		}
		if n, err := w.store.Withdraw(context.Background(), w.engine.SessionKey("key:mine", "s2")); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for _, c := range []struct {
			id     string
			status int
			body   string
		}{
			{ids[0], http.StatusOK, "kept"},
			{ids[1], http.StatusForbidden, part.Sealed + "\n"},
			{gone, http.StatusGone, part.Withdrawn + "\n"},
			{strings.Repeat("0", 24), http.StatusNotFound, part.Missing + "\n"},
		} {
			w.get(c.id, "", "x-api-key", "mine").want(t, c.status, c.body)
			w.get(c.id, "?raw=1", "x-api-key", "mine").want(t, c.status, map[bool]string{true: `"kept"`, false: c.body}[c.status == 200])
			if h := w.ask(http.MethodHead, w.url+"/v1/originals/"+c.id, "x-api-key", "mine"); h.status != c.status {
				t.Errorf("HEAD: %d", h.status)
			}
			if tenant != nil {
				w.get(c.id, "", "x-api-key", "other").want(t, http.StatusNotFound, part.Missing+"\n")
			}
		}
		w.ask(http.MethodDelete, w.admin+"/v1/originals/"+ids[1]+"/seal").want(t, http.StatusNoContent, "")
		w.get(ids[1], "", "x-api-key", "mine").want(t, http.StatusOK, "sealed")
	}
}

func TestDeadStore(t *testing.T) {
	w := newWorld(t, byKey)
	id := w.keep("key:mine", "s", `"kept"`)[0]
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	down := part.Unavailable + "\n"
	w.get(id, "", "x-api-key", "mine").want(t, http.StatusServiceUnavailable, down)
	w.get(id, "/siblings", "x-api-key", "mine").want(t, http.StatusServiceUnavailable, down)
	w.ask(http.MethodDelete, w.url+"/v1/sessions/s", "x-api-key", "mine").want(t, http.StatusServiceUnavailable, down)
	w.ask(http.MethodGet, w.admin+"/v1/sessions/s/originals").want(t, http.StatusServiceUnavailable, down)
	w.ask(http.MethodPost, w.admin+"/v1/originals/"+id+"/seal").want(t, http.StatusServiceUnavailable, down)
	w.get("nothing", "").want(t, http.StatusNotFound, part.Missing+"\n")
	if text := w.log.String(); strings.Count(text, `"level":"ERROR"`) != 5 || strings.Contains(text, id) {
		t.Errorf("logs %s", text)
	}
}

// TestSiblings lists the session of an id, without content.
func TestSiblings(t *testing.T) {
	w := newWorld(t, nil)
	ids := w.keep("t", "s", `"SECRET one"`, `"SECRET two"`)
	w.keep("t", "another", `"SECRET three"`)
	r := w.get(ids[0], "/siblings")
	var got struct{ Spans []map[string]any }
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusOK || r.header.Get("Content-Type") != "application/json" {
		t.Fatal(r, err)
	}
	want := []map[string]any{}
	for _, i := range []int{1, 0} {
		want = append(want, map[string]any{
			"id": ids[i], "about": "Read of main.go (1-40)", "tool": "Read", "call": []string{"calla", "callb"}[i], "filter": "readlifecycle",
			"size": 12.0, "at": []string{"2026-11-30T09:00:00Z", "2026-11-30T09:01:00Z"}[i], "fate": "kept",
		})
	}
	if d := cmp.Diff(want, got.Spans); d != "" {
		t.Error(d)
	}
	if strings.Contains(r.body, "SECRET") {
		t.Error("content is listed")
	}
	w.get(strings.Repeat("0", 24), "/siblings").want(t, http.StatusNotFound, part.Missing+"\n")
}

// TestEvents: what is given back is counted, by its size, before the answer is complete.
func TestEvents(t *testing.T) {
	w := newWorld(t, nil)
	id := w.keep("t", "s", quoted(strings.Repeat("a word ", 100)))[0]
	for _, c := range []struct {
		what string
		ask  func() reply
		want []restore.Event
	}{
		{"whole", func() reply { return w.get(id, "") }, []restore.Event{{Path: restore.HTTP, Result: restore.OK, Filter: "readlifecycle", Bytes: 700}}},
		{"range", func() reply { return w.get(id, "", "Range", "bytes=0-69") }, []restore.Event{{Path: restore.HTTP, Result: restore.OK, Filter: "readlifecycle", Bytes: 70}}},
		{"raw", func() reply { return w.get(id, "?raw=1") }, []restore.Event{{Path: restore.HTTP, Result: restore.OK, Filter: "readlifecycle", Bytes: 702}}},
		{"no range", func() reply { return w.get(id, "", "Range", "bytes=900-") }, []restore.Event{{Path: restore.HTTP, Result: restore.Refused}}},
		{"miss", func() reply { return w.get(strings.Repeat("0", 24), "") }, []restore.Event{{Path: restore.HTTP, Result: restore.Miss}}},
		{"bad", func() reply { return w.get(id, "?head=x") }, []restore.Event{{Path: restore.HTTP, Result: restore.Refused}}},
		{"HEAD", func() reply { return w.ask(http.MethodHead, w.url+"/v1/originals/"+id) }, nil},
	} {
		c.ask()
		got := w.seen.taken()
		for i := range got {
			if (got[i].Bytes > 0) != (got[i].Tokens > 0) || got[i].Tokens > got[i].Bytes {
				t.Errorf("%s: %d tokens", c.what, got[i].Tokens)
			}
			got[i].Tokens = 0
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s:\n%s", c.what, d)
		}
	}
}
