package vectors_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"github.com/tiktoken-go/tokenizer"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// parse indexes a body, which every case but those of other formats must allow.
func parse(t *testing.T, body []byte) *transcript.Index {
	t.Helper()
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ix.Release)
	return ix
}

func load[T any](t *testing.T, cases []T, err error) []T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Every case of testdata/lifecycle is read by one of the typed readers or by filters/filtertest, and none is lost.
func TestLifecycleIsComplete(t *testing.T) {
	want := map[string]int{
		"read_lifecycle": 23, "read_maturation": 17, "breakpoint": 12, "prefix": 7, "estimate": 5, "netcost": 6, "replay": 1, "session": 1,
	}
	for component, n := range want {
		dir, err := vectors.LifecycleDir(component)
		if err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
		if err != nil || len(found) != n {
			t.Errorf("%s: %d cases, want %d (%v)", component, len(found), n, err)
		}
	}
	dirs, err := vectors.LifecycleDir("*")
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob(filepath.Join(dirs, "*.txtar"))
	if err != nil || len(all) != 72 {
		t.Errorf("%d cases in all, want 72 (%v)", len(all), err)
	}
}

func TestBreakpointCases(t *testing.T) {
	cases, err := vectors.Breakpoints()
	for _, c := range load(t, cases, err) {
		t.Run(c.Name, func(t *testing.T) {
			parse(t, c.Body)
			for _, at := range c.Held {
				if b := gjson.GetBytes(c.Body, at.String()); b.Get("type").Str != "tool_result" {
					t.Errorf("%s is no result: %s", at, b.Raw)
				}
			}
			before := vectors.Markers(c.Body)
			switch {
			case (c.Gate != "" || len(c.Held) == 0) && !slices.Equal(before, c.Markers):
				t.Errorf("nothing is held, but %v becomes %v", before, c.Markers)
			case len(c.Markers) > len(before)+1:
				t.Errorf("%d breakpoints become %d", len(before), len(c.Markers))
			case c.Gate != "" && !slices.Contains(filters.Gates(), filters.Gate(c.Gate)):
				t.Errorf("gate %q is not in the closed list", c.Gate)
			}
		})
	}
}

func TestPrefixCases(t *testing.T) {
	cases, err := vectors.Prefixes()
	for _, c := range load(t, cases, err) {
		t.Run(c.Name, func(t *testing.T) {
			first, second := parse(t, c.First), parse(t, c.Second)
			if len(second.Messages) <= len(first.Messages) || c.Covered > len(first.Messages) {
				t.Errorf("%d messages, then %d, %d covered", len(first.Messages), len(second.Messages), c.Covered)
			}
			if len(vectors.Markers(c.First)) != 1 {
				t.Errorf("breakpoints of the first body: %v", vectors.Markers(c.First))
			}
		})
	}
}

// Only results are ever candidates, so only their text is estimated: never text, calls, images or thinking.
func TestEstimateCases(t *testing.T) {
	exact, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := vectors.Estimates()
	for _, c := range load(t, cases, err) {
		t.Run(c.Name, func(t *testing.T) {
			ix := parse(t, c.Body)
			if len(ix.Results) != c.Results {
				t.Fatalf("%d results, want %d", len(ix.Results), c.Results)
			}
			if c.Results == 0 {
				return
			}
			text := ix.ResultText(&ix.Results[0])
			n, err := exact.Count(text)
			if err != nil || n != c.Exact {
				t.Errorf("o200k: %d, want %d (%v)", n, c.Exact, err)
			}
			est := transcript.Est(text)
			if est != c.Est {
				t.Errorf("Est: %d, want %d", est, c.Est)
			}
			if f := float64(est) / float64(n); f > c.Factor || f < 1/c.Factor {
				t.Errorf("Est is %d, o200k %d: more than a factor of %v apart", est, n, c.Factor)
			}
		})
	}
}

func TestReplayAndSessionCases(t *testing.T) {
	replays, err := vectors.Replays()
	for _, c := range load(t, replays, err) {
		for _, body := range [][]byte{c.First, c.Second} {
			ix, ids := parse(t, body), map[string]string{}
			for i := range ix.Results {
				ids[ix.CallID(&ix.Results[i])] = c.Replacements[ix.CallID(&ix.Results[i])]
			}
			if diff := cmp.Diff(c.Replacements, ids); diff != "" {
				t.Errorf("%s: results without a replacement, or the other way round: %s", c.Name, diff)
			}
		}
	}
	sessions, err := vectors.Sessions()
	for _, c := range load(t, sessions, err) {
		parse(t, c.A)
		parse(t, c.B)
		if !slices.Contains(filters.Gates(), filters.Gate(c.Gate)) || c.Same {
			t.Errorf("%s: gate %q, same %v", c.Name, c.Gate, c.Same)
		}
	}
}

func TestNetCostCasesLoad(t *testing.T) {
	cases, err := vectors.NetCosts()
	for _, c := range load(t, cases, err) {
		if c.Fires != (c.Gain > 0) || c.Removed <= 0 {
			t.Errorf("%s: gain %v, fires %v, removed %v", c.Name, c.Gain, c.Fires, c.Removed)
		}
	}
}

func TestMarkersInOrder(t *testing.T) {
	const mark = `"cache_control":{"type":"ephemeral"}`
	body := `{"cache_control":{"type":"ephemeral","ttl":"1h"},"messages":[{"role":"user","content":[
		{"type":"tool_result","content":[{"type":"text",` + mark + `}],` + mark + `},{"type":"text","cache_control":null}]}],
		"system":[{"type":"text",` + mark + `}],"tools":[{"name":"x","input_schema":{"properties":{"content":{}}},` + mark + `}]}`
	want := []string{"tools.0 5m", "system.0 5m", "messages.0.content.0.content.0 5m", "messages.0.content.0 5m", "1h"}
	if diff := cmp.Diff(want, vectors.Markers([]byte(body))); diff != "" {
		t.Error(diff)
	}
}

func TestRead(t *testing.T) {
	form := vectors.Form{Headers: []string{"shows", "config"}, Sections: []string{"body.json", "out"}}
	for name, c := range map[string]struct{ text, err string }{
		"good":            {"shows: x\n-- out --\ny\n", ""},
		"no shows":        {"config: x\n", "header shows is missing"},
		"unknown header":  {"shows: x\ncolour: red\n", `header "colour" is not known; accepted: shows, config`},
		"header twice":    {"shows: x\nshows: y\n", `header "shows" stands twice`},
		"no header":       {"shows: x\nhello\n", "is no `key: value`"},
		"unknown section": {"shows: x\n-- in --\n", `section "in" is not known; accepted: body.json, out`},
		"section twice":   {"shows: x\n-- out --\n-- out --\n", `section "out" stands twice`},
		"bad template":    {"shows: x\n-- body.json --\n{{nothing}}\n", "expand section"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "case.txtar")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := vectors.Read(path, form)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
	if _, err := vectors.ReadDir(t.TempDir(), form); err == nil {
		t.Error("a directory without vectors is no error")
	}
}

// Rewriting a golden leaves the rest of the file as it is written, expansions included.
func TestRewrite(t *testing.T) {
	form := vectors.Form{Headers: []string{"shows"}, Sections: []string{"body.json", "out"}}
	path := filepath.Join(t.TempDir(), "case.txtar")
	const before = "shows: x\n\n-- body.json --\n\"{{lines 2}}\"\n-- out --\nold\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := vectors.Read(path, form)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Sections["body.json"], `"line of source\nline of source\n"`; got != want {
		t.Errorf("body %s, want %s", got, want)
	}
	if err := f.Rewrite("out", "new"); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if want := strings.Replace(before, "old", "new", 1); err != nil || string(after) != want {
		t.Errorf("%q, want %q (%v)", after, want, err)
	}
}
