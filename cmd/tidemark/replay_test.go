package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemark-dev/tidemark/internal/bill"
	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
	"github.com/tidemark-dev/tidemark/internal/eventlog"
	"github.com/tidemark-dev/tidemark/internal/replay"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// TestReplayScripts runs testdata/replay, where scene.json is a recorded session and events.jsonl is what a server wrote, also in
// two files, of which the older is compressed, and with two broken lines.
func TestReplayScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/replay",
		Setup: func(e *testscript.Env) error {
			for name, data := range eventFiles(t) {
				if err := os.WriteFile(filepath.Join(e.WorkDir, name), data, 0o600); err != nil {
					return err
				}
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "scene.json"), scene(t), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": cmdExits},
	})
}

func eventFiles(t *testing.T) map[string][]byte {
	t.Helper()
	all := eventtest.Lines(t, eventtest.Scene()...)
	n := bytes.LastIndexByte(all[:len(all)/2], '\n') + 1
	var older bytes.Buffer
	z := gzip.NewWriter(&older)
	_, err := z.Write(all[:n])
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	first := bytes.IndexByte(all, '\n') + 1
	return map[string][]byte{
		"events.jsonl": all, "events.jsonl.1.gz": older.Bytes(), "events.jsonl.2": all[n:],
		"half.jsonl": slices.Concat(all[:first], []byte("{\"v\":1,\n[]\n"), all[first:]),
	}
}

// What a file of events says does not reach the terminal as an order to it either.
func TestEventsHaveNoControlCharacters(t *testing.T) {
	const evil = "a\x1b[2J\x07\r\u009b31m\u202eb"
	h := event.Head{V: event.Version, Key: evil, RequestID: evil, Session: evil, Lineage: evil, Tenant: evil, Route: evil, Model: evil, Mode: evil}
	with := func(name string) event.Head {
		named := h
		named.Event = name
		return named
	}
	gates := []event.Gate{{Filter: evil, Gate: evil}}
	events := []event.Event{
		&event.Request{Head: with(event.NameRequest), Kind: evil, Outcome: evil, Gate: evil, Gates: gates, Cache: evil, Sizes: event.Sizes{Basis: evil}, Shadow: &event.Shadow{Outcome: evil}},
		&event.Decision{Head: with(event.NameDecision), Call: evil, Tool: evil, Path: evil, Zone: evil, Gates: gates, Sum: evil, Held: true},
		&event.Decision{Head: with(event.NameDecision), Call: "c", Tool: evil, PathHash: evil, Filter: evil, Verb: evil, ID: evil, First: true},
		&event.Move{Head: with(event.NameMove), Kind: evil, Filter: evil, Sum: evil},
		&event.Usage{Head: with(event.NameUsage), Modelled: &event.Account{First: event.Priced{Basis: evil}}},
		&event.Loss{Head: with(event.NameLoss), Cause: evil, Filter: evil, Source: evil},
		&event.Restore{Head: with(event.NameRestore), Path: evil, Result: evil},
		&event.Reuse{Head: with(event.NameReuse), Call: evil, Kind: evil, Filter: evil},
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	lines := append(eventtest.Lines(t, events...), "{\"v\":1,\"event\":\"\x1b\u202e\"}\n\x1b\u202e\n"...)
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := eventlog.Summarize([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	x, err := eventlog.Explain([]string{path}, evil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	printSummary(&out, s)
	printLogged(&out, x)
	if text := out.String(); strings.Count(text, "[2J") < 30 || strings.ContainsAny(text, "\x1b\x07\r\u009b\u202e") {
		t.Errorf("got %q", text)
	}
}

// What a transcript says does not reach the terminal as an order to it.
func TestExplanationHasNoControlCharacters(t *testing.T) {
	const evil = "a\x1b[2J\x07\r\u009b31m\u202eb"
	var out strings.Builder
	printExplanation(&out, &replay.Explanation{
		Session: evil, Observation: &pipeline.Observation{},
		Outcome: &pipeline.Outcome{Explain: []pipeline.Verdict{
			{Tool: evil, What: evil}, {Tool: "Read", Filter: "tiered", Verdict: "stub", Marker: evil},
		}},
	})
	if text := out.String(); strings.Count(text, "[2J") != 4 || strings.ContainsAny(text, "\x1b\x07\r\u009b\u202e") {
		t.Errorf("got %q", text)
	}
}

// Refusals are on no bill, and are always said.
func TestRefusalsAreSaid(t *testing.T) {
	report := &replay.Report{Session: "s", PassThrough: bill.Bill{Refused: 3}, Bill: bill.Bill{Refused: 2}}
	r := replayResults([]replay.Policy{{Name: "p"}}, [][]*replay.Report{{report}}, nil)
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{"3 requests refused", "2 requests refused"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// scene is a session that reads two files, edits the first, pauses for half an hour and goes on.
func scene(t *testing.T) []byte {
	t.Helper()
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	var messages []any
	var ts []string
	add := func(role string, content map[string]any) {
		messages = append(messages, map[string]any{"role": role, "content": []any{content}})
		ts = append(ts, at.Format(time.RFC3339))
		at = at.Add(10 * time.Second)
	}
	say := func(role, words string) { add(role, map[string]any{"type": "text", "text": words}) }
	calls := 0
	call := func(tool string, input map[string]any, result string) {
		calls++
		id := fmt.Sprintf("toolu_%d", calls)
		add("assistant", map[string]any{"type": "tool_use", "id": id, "name": tool, "input": input})
		add("user", map[string]any{"type": "tool_result", "tool_use_id": id, "content": result})
	}
	file := strings.Repeat("a line of words that say nothing of interest\n", 700)
	say("user", "Please look at the code.")
	call("Read", map[string]any{"file_path": "/src/one.go"}, file)
	call("Read", map[string]any{"file_path": "/src/two.go"}, file)
	call("Edit", map[string]any{"file_path": "/src/one.go", "old_string": "a", "new_string": "b"}, "The file was updated.")
	at = at.Add(30 * time.Minute)
	say("user", "Go on.")
	for i := range 3 {
		call("Bash", map[string]any{"command": "make"}, fmt.Sprintf("step %d is done", i))
	}
	say("assistant", "Done.")
	raw, err := json.Marshal(map[string]any{
		"id": "scene", "api": "anthropic", "model": "claude-opus-4-5", "messages": messages, "ts": ts, "usage": []any{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
