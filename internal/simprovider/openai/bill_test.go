package openai

import (
	"encoding/json"
	"math"
	"testing"
)

// TestUnits: costs by hand.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		model string
		usage Usage
		units float64
		usd   float64
	}{
		{"gpt-5.1", Usage{Input: 1000}, 1000, 0.00125},
		{"gpt-5.1", Usage{Input: 1000, Read: 10_000, Output: 100}, 1000 + 1000 + 800, 0.0035},
		{"gpt-6-sol", Usage{Input: 100, Read: 10_000, Write: 1000, Output: 100}, 100 + 1000 + 1250 + 500, 0.0057},
		{"gpt-6.1-sol", Usage{Read: 10_000, Write: 1000}, 500 + 1250, 0.0035},
		{"gpt-6-sol", Usage{Input: 272_000}, 272_000, 0.544},
		{"gpt-6-sol", Usage{Input: 272_001, Output: 10}, 544_002 + 75, 1.088154},
		{"gpt-5.5", Usage{Input: 72_001, Read: 200_000}, 144_002 + 40_000, 0.92001},
		{"gpt-5-mini", Usage{Input: 200_000, Read: 100_000}, 210_000, 0.0525},
		{"gpt-4o", Usage{Input: 10, Read: 100}, 60, 0.00015},
		{"gpt-5.1-codex-max", Usage{Input: 10}, 10, 0.0000125},
		{"gpt-99", Usage{Input: 10}, 0, 0},
	} {
		if got := Units(c.model, c.usage); math.Abs(got-c.units) > 1e-6 {
			t.Errorf("%s %+v: %v units, want %v", c.model, c.usage, got, c.units)
		}
		if got := Bill(c.model, c.usage); math.Abs(got-c.usd) > 1e-9 {
			t.Errorf("%s %+v: %v USD, want %v", c.model, c.usage, got, c.usd)
		}
	}
}

// TestWireUsage: the prompt's tokens hold what was read and written.
func TestWireUsage(t *testing.T) {
	u := Usage{Input: 1, Read: 20, Write: 300, Output: 4000, Reasoning: 50}
	for want, v := range map[string]any{
		`{"prompt_tokens":321,"completion_tokens":4000,"total_tokens":4321,"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":300,"audio_tokens":0},` +
			`"completion_tokens_details":{"reasoning_tokens":50,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`: u.chat(),
		`{"input_tokens":321,"input_tokens_details":{"cached_tokens":20,"cache_write_tokens":300},"output_tokens":4000,` +
			`"output_tokens_details":{"reasoning_tokens":50},"total_tokens":4321}`: u.items(),
	} {
		got, err := json.Marshal(v)
		if err != nil || string(got) != want {
			t.Errorf("got  %s (%v)\nwant %s", got, err, want)
		}
	}
}

// TestModels: names, and what follows from them.
func TestModels(t *testing.T) {
	for id, want := range map[string]struct{ known, points, noChat bool }{
		"gpt-5": {known: true}, "gpt-5-2025-08-07": {known: true}, "gpt-5-codex": {known: true, noChat: true}, "gpt-5.1-chat-latest": {known: true},
		"gpt-5.3-codex": {known: true, noChat: true}, "gpt-6.1-sol-2026-09-29": {known: true, points: true}, "gpt-5.6-luna": {known: true, points: true},
		"gpt-5.5": {known: true}, "gpt-6-sol-codex": {}, "gpt-6": {}, "claude-opus-5": {}, "": {},
	} {
		m, known := lookup(id)
		if known != want.known || m.points != want.points || m.noChat != want.noChat {
			t.Errorf("%s: %v %+v", id, known, m)
		}
		if known && (m.points == (m.step > 0) || m.window == 0 || m.price.input == 0 || !m.points && !m.extended && !m.brief) {
			t.Errorf("%s: %+v", id, m)
		}
	}
}
