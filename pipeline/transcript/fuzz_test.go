package transcript

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/gen"
)

// maxFuzz bounds an input: larger ones take long and show nothing else.
const maxFuzz = 1 << 14

// Whatever the bytes are: either an error, or JSON of which every span is what encoding/json says, and whose digests,
// texts and facts can be had.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"accepted.txt", "rejected.txt"} {
		for _, body := range bodies(f, file) {
			f.Add([]byte(body))
		}
	}
	for seed := range uint64(20) {
		m := gen.New(rand.New(rand.NewPCG(seed, 1)), gen.Options{Strange: true, Wild: seed%2 == 0, ResultBytes: 30})
		f.Add(m.Conversation(int(seed % 4)).Body())
	}
	h := NewHasher(secret)
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > maxFuzz {
			return
		}
		ix, err := Parse(body, Anthropic)
		if err != nil {
			return
		}
		defer ix.Release()
		check(t, ix)
		ix.Digest(h)
		for i := range ix.Results {
			r := &ix.Results[i]
			if text := ix.ResultText(r); len(text) > ix.ResultSize(r) {
				t.Fatalf("text of %d bytes, size %d", len(text), ix.ResultSize(r))
			}
			if ix.ResultOutcome(r) == Succeeded && r.IsError {
				t.Fatal("a failed result succeeded")
			}
			if content := ix.Replacement(r, "x"); !json.Valid(content) || r.Content.Len() > 0 && ix.Replaced(h, r, content) == ix.Blocks[r.Block].Hash &&
				string(content) != string(r.Content.Of(body)) {
				t.Fatalf("replaced by %s", content)
			}
		}
		for c := range ix.Calls {
			checkFacts(t, ix.CallFacts(int32(c)))
		}
	})
}

func checkFacts(t *testing.T, f *CallFacts) {
	t.Helper()
	for _, list := range [][]Access{f.Files, f.Shell} {
		for _, a := range list {
			if a.Path == "" || a.Path != cleanPath(a.Path) || a.Role != Read && !a.Role.Changes() {
				t.Fatalf("access %+v", a)
			}
		}
	}
	if f.Path != cleanPath(f.Path) || len(f.Files) == 1 {
		t.Fatalf("facts %+v", f)
	}
}

func FuzzUnquote(f *testing.F) {
	for _, s := range []string{"", "plain", `\"\\\/\b\f\n\r\t`, `\u0041\ud83d\ude42`, `\ud800`, `\ud83dxude42`, `\udc00\ud800x`, `\ud800\ud800\udc00`, "\xff\\n", "é🙂"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if len(raw) > maxFuzz>>4 || !json.Valid([]byte(`"`+raw+`"`)) {
			return
		}
		checkUnquote(t, raw)
	})
}

// Whatever the command is, every path that it is said to touch is one.
func FuzzShell(f *testing.F) {
	for _, c := range commands {
		f.Add(c.command, "/w")
	}
	f.Fuzz(func(t *testing.T, command, dir string) {
		for _, dir := range []string{"", dir} {
			found := shellAccess(command, dir, true)
			checkFacts(t, &CallFacts{Shell: found})
			for _, a := range shellAccess(command, dir, false) {
				if a.Role == Read {
					t.Fatalf("%q among others reads %q", command, a.Path)
				}
			}
		}
	})
}
