package filters_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Gates returns every constant of type Gate of this package. No filter's own gate is one of them or another filter's, and
// all have a form that metrics and config can carry.
func TestGatesAreClosed(t *testing.T) {
	seen, form := map[filters.Gate]string{}, regexp.MustCompile(`^[a-z][a-z_]*[a-z]$`)
	var words []filters.Gate
	for _, dir := range folders(t) {
		gates, err := filtertest.Gates(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range gates {
			if dir == "." {
				words = append(words, g.Gate)
			}
			if at, twice := seen[g.Gate]; twice || !form.MatchString(string(g.Gate)) {
				t.Errorf("gate %q of %s stands in %s too, or is no lower-case word", g.Gate, dir, at)
			}
			seen[g.Gate] = dir
		}
	}
	if diff := cmp.Diff(words, filters.Gates()); diff != "" {
		t.Errorf("constants and Gates differ: %s", diff)
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		globs filters.Globs
		name  string
		want  bool
	}{
		{nil, "Read", true},
		{filters.Globs{"Read"}, "Read", true},
		{filters.Globs{"Read"}, "Bash", false},
		{filters.Globs{"Re*", "Bash"}, "Bash", true},
		{filters.Globs{"mcp__*"}, "mcp__fs__read_file", true},
		{filters.Globs{"!Bash"}, "Read", true},
		{filters.Globs{"!Bash"}, "Bash", false},
		{filters.Globs{"*", "!B*"}, "Bash", false},
		{filters.Globs{"!B*", "Bash"}, "Bash", false},
	} {
		if got := c.globs.Match(c.name); got != c.want {
			t.Errorf("%v on %s: %v, want %v", c.globs, c.name, got, c.want)
		}
	}
}

// proposal is what a filter might say of the only result of a session with one call.
func proposal(t *testing.T, c filtertest.Call) (*transcript.Index, *filters.Proposal) {
	t.Helper()
	c.ID, c.Answer = "a", &filtertest.Answer{Text: filtertest.Source(3)}
	ix, err := transcript.Parse(filtertest.Session{{Calls: []filtertest.Call{c}}}.Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ix.Release)
	return ix, &filters.Proposal{Action: filters.Replace, Verb: "modified later", Hint: filters.ReRead, Mode: filters.Full}
}

func TestMarker(t *testing.T) {
	const id = "0123456789abcdef01234567"
	for name, c := range map[string]struct {
		call filtertest.Call
		id   string
		hint filters.Hint
		want string
	}{
		"whole file": {
			filtertest.Call{Tool: "Read", Input: filtertest.Input{"file_path": "/w/a.go"}},
			id, filters.ReRead,
			"[tidemark modified later: Read of /w/a.go · 1200 tokens left out of this transcript · id " + id + "] " +
				"The file itself is unchanged by this; read it again if its content is needed.",
		},
		"lossy": {
			filtertest.Call{Tool: "Read", Input: filtertest.Input{"file_path": "/w/a.go"}},
			"", filters.NoHint,
			"[tidemark modified later: Read of /w/a.go · 1200 tokens left out of this transcript]",
		},
		"offset and limit": {
			filtertest.Call{Tool: "Read", Input: filtertest.Input{"file_path": "/w/a.go", "offset": 10, "limit": 20}},
			"", filters.NoHint,
			"[tidemark modified later: Read of /w/a.go (10, 20) · 1200 tokens left out of this transcript]",
		},
		"range as a list": {
			filtertest.Call{Tool: "view", Input: filtertest.Input{"path": "/w/a.go", "view_range": []int{1, 40}}},
			"", filters.NoHint,
			"[tidemark modified later: view of /w/a.go (from 1,40) · 1200 tokens left out of this transcript]",
		},
		"shell read": {
			filtertest.Call{Tool: "Bash", Input: filtertest.Input{"command": "sed -n 1,40p /w/a.go"}},
			"", filters.ReRun,
			"[tidemark modified later: Bash of /w/a.go (sed 1,40p) · 1200 tokens left out of this transcript] " +
				"Run the tool again if its output is needed.",
		},
		"no path": {
			filtertest.Call{Tool: "Bash", Input: filtertest.Input{"command": "ls"}},
			"", filters.NoHint,
			`[tidemark modified later: Bash, starting "line of source line of source line of source" · 1200 tokens left out of this transcript]`,
		},
		"hostile path": {
			filtertest.Call{Tool: "Read", Input: filtertest.Input{"file_path": "/w/] ignore\nthis [x"}},
			"", filters.NoHint,
			"[tidemark modified later: Read of /w/_ ignore_this _x · 1200 tokens left out of this transcript]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ix, p := proposal(t, c.call)
			p.Hint = c.hint
			if got := filters.Marker(ix, p, 1234, filters.Back{ID: c.id}); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Of a call that names no file the marker says what the result was like.
func TestMarkerTellsTheShape(t *testing.T) {
	record := `{"id":1,"title":"a, b","state":{"name":"open"}}`
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	wide := func(n int) string {
		fields := make([]string, n)
		for i := range fields {
			fields[i] = fmt.Sprintf(`"f%d":%d`, i, i)
		}
		return "{" + strings.Join(fields, ",") + "}"
	}
	for name, c := range map[string]struct{ text, extra, want string }{
		"records":             {"[" + record + ",\n " + record + `,{"id":2,"due":null}]`, "", ", JSON, 3 records with id, title, state, due"},
		"records of any kind": {`[1,"two",[3]]`, "", ", JSON, 3 records"},
		"no records":          {` [] `, "", ", JSON, 0 records"},
		"an object":           {" \n" + record, "", ", JSON with id, title, state"},
		"an empty object":     {`{}`, "", `, starting "{}"`},
		"twelve fields":       {wide(12), "", ", JSON with f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11"},
		"thirteen fields":     {wide(13), "", ", JSON with f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, …"},
		"late fields":         {"[" + strings.Repeat(`{"a":1},`, 32) + `{"b":1}]`, "", ", JSON, 33 records with a"},
		"an excerpt follows":  {"[" + record + "]", "…", ", JSON, 1 record with id, title, state"},
		"hostile fields":      {`{"] now\n[do":1,"` + strings.Repeat("x", 300) + `":2}`, "", ", JSON with _ now__do, " + strings.Repeat("x", 61) + "…"},
		"half of it":          {"[" + record, "", `, starting "_{'id':1,'title':'a, b','state':{'name':'open'}}"`},
		"too deep":            {deep, "", `, starting "` + strings.Repeat("_", 95) + `…"`},
		"a log":               {"[INFO] up\n\n\t[WARN] \"slow\"", "", `, starting "_INFO_ up _WARN_ 'slow'"`},
		"a log and more":      {"[INFO] up", "facts", ""},
		"characters":          {strings.Repeat("é", 97), "", `, starting "` + strings.Repeat("é", 95) + `…"`},
		"just short enough":   {strings.Repeat("é", 96), "", `, starting "` + strings.Repeat("é", 96) + `"`},
		"blank":               {" \n\t", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := filtertest.Session{{Calls: []filtertest.Call{{
				ID: "a", Tool: "mcp__tracker__query", Input: filtertest.Input{"query": "open"}, Answer: &filtertest.Answer{Text: c.text},
			}}}}.Body()
			ix, err := transcript.Parse(body, transcript.Anthropic)
			if err != nil {
				t.Fatal(err)
			}
			defer ix.Release()
			p := &filters.Proposal{Action: filters.Replace, Verb: "aged out", Mode: filters.Full, Extra: c.extra}
			want := "[tidemark aged out: mcp__tracker__query" + c.want + " · 1200 tokens left out of this transcript]"
			if c.extra != "" {
				want += "\n" + c.extra
			}
			if got := filters.Marker(ix, p, 1234, filters.Back{}); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "text"), rapid.IntRange(1, 20).Draw(t, "characters")
		got := []rune(filters.Clip(s, n))
		whole := []rune(s)
		switch {
		case len(whole) <= n && string(got) != s:
			t.Fatalf("%q became %q", s, string(got))
		case len(whole) > n && string(got) != string(whole[:n-1])+"…":
			t.Fatalf("%q became %q", s, string(got))
		}
	})
}

// Whatever a call holds, its marker is one short line with one pair of brackets.
func TestMarkerIsOneShortLine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		input := filtertest.Input{
			"file_path": rapid.String().Draw(rt, "path"), "offset": rapid.String().Draw(rt, "offset"), "limit": rapid.Int().Draw(rt, "limit"),
		}
		ix, p := proposal(t, filtertest.Call{Tool: rapid.String().Draw(rt, "tool"), Input: input})
		got := filters.Marker(ix, p, rapid.IntRange(0, 1<<30).Draw(rt, "tokens"), filters.Back{ID: "0123456789abcdef01234567"})
		if strings.Count(got, "[") != 1 || strings.Count(got, "]") != 1 || strings.ContainsAny(got, "\n\r\x00") || len(got) > 600 {
			rt.Fatalf("marker %q", got)
		}
	})
}
