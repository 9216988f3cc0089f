package event_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
)

// docs/events.schema.json is written from the types and their comments:
//
//	go test ./internal/event -run TestSchema -update
var update = flag.Bool("update", false, "write docs/events.schema.json")

// every event and its name.
var every = map[string]event.Event{
	event.NameRequest: &event.Request{}, event.NameDecision: &event.Decision{}, event.NameMove: &event.Move{},
	event.NameUsage: &event.Usage{}, event.NameLoss: &event.Loss{}, event.NameRestore: &event.Restore{},
	event.NameReuse: &event.Reuse{}, event.NameSpend: &event.Spend{}, event.NameConfig: &event.Config{},
}

// basis says where figures come from, by type and property; * are the others of the type. What is no figure of tokens or USD, as
// bytes, messages and microseconds, is counted.
var basis = map[string]string{
	"Head.*": "counted", "Gate.*": "counted",
	"Request.*":       "counted",
	"Sizes.*":         "estimated or calibrated",
	"Shadow.*":        "shadow",
	"Decision.*":      "counted",
	"Decision.tokens": "estimated", "Decision.marker_tokens": "estimated",
	"Move.*": "counted", "Move.removed": "estimated", "Move.predicted_usd": "modelled",
	"Usage.expected_cached": "calibrated",
	"Billed.*":              "observed",
	"Account.*":             "modelled",
	"Priced.*":              "modelled",
	"Loss.message":          "counted", "Loss.lost_tokens": "calibrated", "Loss.observed": "observed", "Loss.lost_usd": "modelled",
	"Restore.tokens": "estimated",
	"Reuse.tokens":   "estimated", "Reuse.turns_later": "counted",
	"Spend.*": "observed",
}

// words are the values of properties that have a closed list of them.
var words = map[string][]any{
	"Request.kind":    {"new", "continue", "retry", "fork", "rekey", "none"},
	"Request.outcome": {"identity", "replayed", "fresh", "moved", "bypassed", "error"},
	"Request.cache":   {"first", "warm", "cold"},
	"Sizes.basis":     {"estimated", "calibrated"},
	"Decision.zone":   {"covered", "uncovered", "fresh"},
	"Priced.basis":    {"CACHE_READ_MARGINAL", "FULL_INPUT", "CACHE_WRITE_MARGINAL", "BLENDED_MARGINAL"},
	"Loss.cause":      {"first", "ttl", "client_system", "client_tools", "client_model", "client_history", "provider", "tidemark", "unknown"},
	"Loss.source":     {"ledger", "diagnostics"},
	"Restore.path":    {"http", "mcp", "inline"},
	"Restore.result":  {"ok", "miss", "sealed", "withdrawn", "refused"},
	"Reuse.kind":      {"reread", "rerun", "restored"},
	"Config.result":   {"ok", "error"},
	"Head.mode":       {"active", "shadow", "off"},
}

// heads are the properties that all events have.
var heads = func() map[string]bool {
	all := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[event.Head]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all[name] = true
	}
	return all
}()

func TestSchema(t *testing.T) {
	root, err := eventtest.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, eventtest.SchemaFile)
	want := schema(t)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // documentation is for everybody.
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what the code says: %s", eventtest.SchemaFile, diff)
	}
}

// schema makes the schema: one of all events, told apart by their names.
func schema(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true}
	if err := r.AddGoComments("github.com/tidemark-dev/tidemark/internal/event", "."); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	all := &jsonschema.Schema{
		Version: jsonschema.Version, Title: "tidemark events",
		Description: fmt.Sprintf("One line of a file of events, version %d. x-basis says where a figure may come from: observed (the provider said so), modelled (what would have been without tidemark), estimated (by bytes), calibrated (by bytes, and what the provider counted before), shadow (what mode active would have done). Numbers without it are counted. Fields may be added; one that changes its meaning or goes away makes a new version.", event.Version),
		Definitions: jsonschema.Definitions{},
	}
	for _, name := range slices.Sorted(maps.Keys(every)) {
		one := r.Reflect(every[name])
		for def, s := range one.Definitions {
			if all.Definitions[def] == nil {
				annotate(t, def, s, used)
				all.Definitions[def] = s
			}
		}
		def := reflect.TypeOf(every[name]).Elem().Name()
		e, _ := all.Definitions[def].Properties.Get("event")
		e.Const = name
		all.OneOf = append(all.OneOf, &jsonschema.Schema{Ref: "#/$defs/" + def})
	}
	for key := range basis {
		if !used[key] {
			t.Errorf("no number has the basis of %s", key)
		}
	}
	for key := range words {
		if !used[key] {
			t.Errorf("no property has the words of %s", key)
		}
	}
	out, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// annotate adds to the properties of a type what reflection does not know.
func annotate(t *testing.T, def string, s *jsonschema.Schema, used map[string]bool) {
	t.Helper()
	if s.Description == "" {
		t.Errorf("%s is not described", def)
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		owner := def
		if heads[p.Key] && def != "Gate" {
			owner = "Head"
		}
		key := owner + "." + p.Key
		if p.Value.Description == "" && p.Value.Ref == "" {
			t.Errorf("%s is not described", key)
		}
		if list := words[key]; list != nil {
			p.Value.Enum, used[key] = list, true
		}
		if p.Value.Type != "integer" && p.Value.Type != "number" {
			continue
		}
		b := basis[key]
		if b == "" {
			key = owner + ".*"
			b = basis[key]
		}
		used[key] = true
		switch b {
		case "":
			t.Errorf("%s.%s has no basis", owner, p.Key)
		case "counted":
		default:
			p.Value.Extras = map[string]any{"x-basis": strings.Split(b, ", ")}
		}
	}
}
