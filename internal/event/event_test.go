package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
)

func collect(tb testing.TB, text string) (events []event.Event, faults []error) {
	tb.Helper()
	for e, err := range event.Read(strings.NewReader(text)) {
		if (e == nil) == (err == nil) {
			tb.Fatalf("event %v with error %v", e, err)
		}
		if err != nil {
			faults = append(faults, err)
		} else {
			events = append(events, e)
		}
	}
	return events, faults
}

// What is written is read, as far as it is written at all.
func TestReadsWhatIsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(eventtest.Drawn(), 0, 5).Draw(rt, "events")
		text := string(eventtest.Lines(t, want...))
		got, faults := collect(t, text)
		if len(faults) > 0 || string(eventtest.Lines(t, got...)) != text {
			rt.Fatalf("%v, %s", faults, cmp.Diff(text, string(eventtest.Lines(t, got...))))
		}
	})
}

// Whatever stands between two events, and wherever a line was cut off, the others are read.
func TestReadsOn(t *testing.T) {
	first, last := `{"v":1,"event":"config","result":"ok","new":[{}]}`, `{"v":1,"ts":"2026-01-02T03:04:05Z","event":"spend","usd":1}`
	for text, want := range map[string]error{
		"":                                       nil,
		" \t\r":                                  nil,
		`{"v":1,"event":"usage","observed":{"in`: event.ErrNoEvent,
		`{"v":1,"event":"usage","observed":7}`:   event.ErrNoEvent,
		`{"v":1,"event":"usage","turn":99999999999999999999}`: event.ErrNoEvent,
		`{"v":"1","event":"usage"}`:                           event.ErrNoEvent,
		`{"event":"usage"}`:                                   event.ErrNoEvent,
		`{"v":-1,"event":"usage"}`:                            event.ErrNoEvent,
		`{"v":1}`:                                             event.ErrNoEvent,
		`[]`:                                                  event.ErrNoEvent,
		`null`:                                                event.ErrNoEvent,
		"\x00\xff":                                            event.ErrNoEvent,
		strings.Repeat("[", 1<<20):                            event.ErrNoEvent,
		strings.Repeat("x", event.MaxLine+1):                  event.ErrNoEvent,
		`{"v":1,"event":"dream"}`:                             event.ErrLater,
		`{"v":2,"event":"usage","observed":7}`:                event.ErrLater,
	} {
		name := text[:min(len(text), 60)]
		got, faults := collect(t, first+"\n"+text+"\n"+last)
		if len(got) != 2 || got[0].Of().Event != event.NameConfig || got[1].(*event.Spend).USD != 1 {
			t.Errorf("%q: got %v", name, got)
		}
		if want == nil && len(faults) == 0 {
			continue
		}
		var at *event.LineError
		if len(faults) != 1 || !errors.Is(faults[0], want) || !errors.As(faults[0], &at) || at.Line != 2 {
			t.Errorf("%q: got %.200v, want %v", name, faults, want)
		}
	}
}

// A reader that fails ends with its error.
func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	var last error
	n := 0
	for e, err := range event.Read(iotest.TimeoutReader(strings.NewReader(`{"v":1,"event":"config"}` + "\n" + strings.Repeat(" ", 80<<10)))) {
		if e != nil {
			n++
		}
		last = err
	}
	if n != 1 || !errors.Is(last, iotest.ErrTimeout) || errors.As(last, new(*event.LineError)) {
		t.Errorf("%d events, %v", n, last)
	}
	for _, err := range event.Read(iotest.ErrReader(broken)) {
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

// Nobody must read on.
func TestReadStops(t *testing.T) {
	n := 0
	for range event.Read(strings.NewReader("x\nx\nx\n")) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d", n)
	}
}

func TestSceneIsAsTheSchemaSays(t *testing.T) {
	events := eventtest.Scene()
	eventtest.Check(t, events...)
	seen := map[string]bool{}
	for _, e := range events {
		seen[e.Of().Event] = true
	}
	for name := range every {
		if !seen[name] {
			t.Errorf("the scene has no event %s", name)
		}
	}
}

// The schema does not let everything through.
func TestSchemaRefuses(t *testing.T) {
	for _, e := range eventtest.Scene() {
		line := eventtest.Lines(t, e)
		for _, change := range []func(map[string]any){
			func(m map[string]any) { delete(m, "event") },
			func(m map[string]any) { m["event"] = "dream" },
			func(m map[string]any) { delete(m, "ts") },
			func(m map[string]any) { m["ts"] = "yesterday" },
			func(m map[string]any) { m["turn"] = "1" },
			func(m map[string]any) { m["mode"] = "turbo" },
			func(m map[string]any) {
				delete(m, map[string]string{
					event.NameRequest: "sizes", event.NameDecision: "tokens", event.NameMove: "kind", event.NameUsage: "observed", event.NameLoss: "cause",
					event.NameRestore: "result", event.NameReuse: "kind", event.NameSpend: "usd", event.NameConfig: "result",
				}[e.Of().Event])
			},
		} {
			var m map[string]any
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			change(m)
			changed, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if eventtest.Validate(changed) == nil {
				t.Errorf("passes: %s", changed)
			}
		}
	}
}

// FuzzRead reads anything: each line is an event, a fault or empty, and an event that is written again is read as the same.
func FuzzRead(f *testing.F) {
	for _, e := range eventtest.Scene() {
		f.Add(eventtest.Lines(f, e))
	}
	f.Add(eventtest.Lines(f, eventtest.Scene()...)[:3000])
	f.Add([]byte("{\"v\":1,\"event\":\"dream\"}\n\n\xff{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, faults := collect(t, string(data))
		lines := 0
		for line := range bytes.SplitSeq(data, []byte{'\n'}) {
			if len(bytes.TrimSpace(line)) > 0 {
				lines++
			}
		}
		if len(events)+len(faults) != lines {
			t.Fatalf("%d events, %d faults, %d lines", len(events), len(faults), lines)
		}
		for _, err := range faults {
			if !errors.Is(err, event.ErrLater) && !errors.Is(err, event.ErrNoEvent) {
				t.Errorf("%v", err)
			}
		}
		text := eventtest.Lines(t, events...)
		again, faults := collect(t, string(text))
		if len(faults) > 0 || !bytes.Equal(eventtest.Lines(t, again...), text) {
			t.Errorf("%v: %s", faults, text)
		}
	})
}
