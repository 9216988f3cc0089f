package cache

import (
	"strings"
	"testing"
	"time"
)

// A platform asks for more where it does, and an override has the last word.
func TestPlatforms(t *testing.T) {
	dear, err := Prices().With([]Override{{Model: "claude-opus-4-7", Input: 6, AutoTTL: 10 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		table   *Table
		model   string
		at      Place
		input   float64
		minimum int
	}{
		{Prices(), "claude-opus-4-7", Place{}, 5, 2048},
		{Prices(), "us.anthropic.claude-opus-4-7-v1:0", Place{Bedrock, true}, 5.5, 4096},
		{Prices(), "global.anthropic.claude-opus-4-7-v1:0", Place{Bedrock, false}, 5, 4096},
		{Prices(), "claude-sonnet-4-5@20250929", Place{Vertex, true}, 3.3, 1024},
		{Prices(), "claude-sonnet-4@20250514", Place{Vertex, true}, 3, 1024},
		{Prices(), "gemini-2.5-pro", Place{Vertex, true}, 1.25, 2048},
		{Prices(), "gpt-5.5", Place{Azure, true}, 5, 2048},
		{dear, "us.anthropic.claude-opus-4-7-v1:0", Place{Bedrock, true}, 6, 2048},
	} {
		p := c.table.At(c.model, c.at)
		if got := p.Rates(0).Input; got < c.input-1e-9 || got > c.input+1e-9 || p.Minimum != c.minimum {
			t.Errorf("%s at %+v: input %v, minimum %d", c.model, c.at, got, p.Minimum)
		}
		if err := p.check(); err != nil {
			t.Errorf("%s at %+v: %v", c.model, c.at, err)
		}
	}
	if got := dear.Lookup("claude-opus-4-7").AutoTTL; got != 10*time.Minute {
		t.Errorf("automatic caching for %v", got)
	}
}

func TestGeminiNames(t *testing.T) {
	for name, want := range map[string]string{
		"gemini-2.5-pro": "gemini-2.5-pro", "models/gemini-2.5-flash": "gemini-2.5-flash", "gemini-2.5-flash-lite-preview-09-2025": "gemini-2.5-flash-lite",
		"gemini-3-pro-preview": "gemini-3-pro", "gemini-3.1-pro-preview-customtools": "gemini-3.1-pro", "vertex/gemini-3-flash-preview": "gemini-3-flash",
		"gemini-4-neon": "gemini-4-neon", "gemini-4.1-neon": Other, "gemini-flash-latest": Other, "gemini-5-xenon": Other,
	} {
		p := Prices().Lookup(name)
		if p.Name != want {
			t.Errorf("%s is %s, want %s", name, p.Name, want)
		}
		if p.AutoTTL != Unbounded || p.Bound {
			t.Errorf("%s: lapses after %v, bound %t", name, p.AutoTTL, p.Bound)
		}
	}
	if p := Prices().Lookup("gemini-4.1-neon"); p.Rates(0).Input != 3 {
		t.Errorf("a newer version is priced at %v", p.Rates(0).Input)
	}
}

func TestPlatformFile(t *testing.T) {
	for _, c := range []struct{ replace, by, fault string }{
		{`{factor: 1.1, from: "4.5"}`, `{factor: 0.9, from: "4.5"}`, "regional"},
		{`{factor: 1.1, from: "4.5"}`, `{factor: 1.1, from: "x"}`, "regional"},
		{"{claude-opus-4-7: 4096}", "{claude-opus-9-9: 4096}", "not in the table"},
	} {
		text := strings.Replace(string(pricesFile), c.replace, c.by, 1)
		if _, err := parsePrices([]byte(text)); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v", c.by, err)
		}
	}
}
