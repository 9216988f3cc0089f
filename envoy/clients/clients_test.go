//go:build unix

package clients_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClaudeCode(t *testing.T) {
	t.Parallel()
	compare(t, claude, promise{step: 1})
}

func TestOpencode(t *testing.T) {
	t.Parallel()
	t.Run("messages", func(t *testing.T) {
		t.Parallel()
		compare(t, opencodeOn(anthropic, "@ai-sdk/anthropic", "claude-sonnet-4-6", opencodeTools), promise{step: 1})
	})
	t.Run("chat", func(t *testing.T) {
		t.Parallel()
		compare(t, opencodeOn(chat, "@ai-sdk/openai-compatible", "gpt-5.1", opencodePatches), promise{step: 128})
	})
}

func TestCodex(t *testing.T) {
	t.Parallel()
	t.Run("functions", func(t *testing.T) {
		t.Parallel()
		compare(t, codexOn("gpt-5.5", codexTools, ""), promise{step: 2048})
	})
	t.Run("scripts", func(t *testing.T) {
		t.Parallel()
		compare(t, codexOn("gpt-5.5", codexScripts, "[features]\ncode_mode = true\ncode_mode_only = true\n"), promise{step: 2048})
	})
	// No end of what the provider holds for this model is documented, so that a pause proves nothing.
	t.Run("unbounded", func(t *testing.T) {
		t.Parallel()
		compare(t, codexOn("gpt-6-sol", codexScripts, ""), promise{step: 1, same: true})
	})
}

// promise is what is to be expected of a client with a model.
type promise struct {
	step int  // in how many tokens the provider counts what it reads
	same bool // nothing is removed
}

// compare lets a client do the task without and with tidemark. The second time it must end as the first, with smaller prompts, and
// the provider must find in its cache what it holds.
func compare(t *testing.T, c client, p promise) {
	t.Helper()
	w := newWorld(t, &c, task(), "")
	plain := w.play(t, plainPath, nil)
	tide := w.play(t, tidePath, nil)
	if diff := cmp.Diff(plain.words, tide.words); diff != "" {
		t.Errorf("the client's last words differ (-without +with tidemark):\n%s", diff)
	}
	if diff := cmp.Diff(plain.files, tide.files); diff != "" {
		t.Errorf("the files differ (-without +with tidemark):\n%s", diff)
	}
	plain.finished(t)
	a, b := plain.answered(t), tide.answered(t)
	if len(a) != len(b) || len(a) != w.provider.script.steps() {
		t.Fatalf("%d requests without tidemark, %d with it, the script has %d answers", len(a), len(b), w.provider.script.steps())
	}
	w.seen(t, b)
	moves := w.kept(t, a, b, p.step)
	if (moves == 0) != p.same {
		t.Errorf("tidemark moved %d times", moves)
	}
	smaller(t, a, b, p.same)
}

// finished demands that the task was done to its end.
func (o *outcome) finished(t *testing.T) {
	t.Helper()
	if o.words[0] != "The limiter counts once now." || !strings.HasPrefix(o.words[1], "The sum is ") {
		t.Errorf("the client's last words are %q", o.words)
	}
	for name, line := range map[string]string{"limit.go": "const limit = 13", "store.go": "const shards = 11", "handler.go": "const retries = 11"} {
		if !strings.Contains(o.files[name], line+"\n") {
			t.Errorf("%s does not say %s", name, line)
		}
	}
}

// answered returns the requests of the task, all of which, and all others, must have been answered.
func (o *outcome) answered(t *testing.T) (main []request) {
	t.Helper()
	for _, r := range o.requests {
		if r.status != 200 {
			t.Errorf("%s: status %d: %s", r.path, r.status, r.refusal)
		}
		if !r.side {
			main = append(main, r)
		}
	}
	return main
}

// seen demands that tidemark took all requests for turns of one session.
func (w *world) seen(t *testing.T, all []request) {
	t.Helper()
	session := w.Access(t, all[0].id)["session"]
	for i, r := range all {
		line := w.Access(t, r.id)
		if line["format"] == nil || line["session"] == nil || line["session"] != session || line["gate"] != "" {
			t.Errorf("request %d: format %v, session %v, gate %v", i, line["format"], line["session"], line["gate"])
		}
	}
}

// kept demands that what the provider held was read, but where it had forgotten it or tidemark says that it moved. The provider
// forgets once, in the pause. It returns the number of moves.
func (w *world) kept(t *testing.T, plain, tide []request, step int) (moves int) {
	t.Helper()
	forgotten := 0
	for i := 1; i < len(tide); i++ {
		move, _ := w.Access(t, tide[i].id)["move"].(string)
		if move != "" {
			moves++
		}
		switch {
		case plain[i].read < plain[i-1].held(step):
			forgotten++
		case move == "" && tide[i].read < tide[i-1].held(step):
			t.Errorf("request %d: read %d of the %d tokens that the provider holds", i, tide[i].read, tide[i-1].held(step))
		}
	}
	if forgotten != 1 {
		t.Errorf("the provider forgot %d times", forgotten)
	}
	if n := w.tidemark.Metric(t, `tidemark_prefix_changes_total{declared="false"}`); n != 0 {
		t.Errorf("%.0f prefixes changed undeclared", n)
	}
	return moves
}

// smaller demands that no prompt is larger with tidemark, and the last one much smaller, unless nothing was removed.
func smaller(t *testing.T, plain, tide []request, same bool) {
	t.Helper()
	var a, b request
	for i := range tide {
		if tide[i].prompt > plain[i].prompt*1001/1000 { // what clients say of themselves varies by some bytes
			t.Errorf("request %d: %d tokens, without tidemark %d", i, tide[i].prompt, plain[i].prompt)
		}
		a, b = a.and(plain[i]), b.and(tide[i])
	}
	last := len(tide) - 1
	if most := plain[last].prompt * 4 / 5; !same && tide[last].prompt > most {
		t.Errorf("the last prompt has %d tokens, want at most %d", tide[last].prompt, most)
	}
	if b.cost > a.cost*1.001 {
		t.Errorf("the bill is %.4f USD, without tidemark %.4f", b.cost, a.cost)
	}
	t.Logf("%d requests, %d tokens of prompt instead of %d, the last %d instead of %d, %d bytes instead of %d, %.4f USD instead of %.4f", len(tide),
		b.prompt, a.prompt, tide[last].prompt, plain[last].prompt, b.bytes, a.bytes, b.cost, a.cost)
}
