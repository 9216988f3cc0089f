package part_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/internal/restore/part"
)

const id = "0123456789abcdef01234567"

func TestParseJSON(t *testing.T) {
	for input, want := range map[string]part.Ask{
		`{"id":"` + id + `"}`:                           {ID: id},
		`{"id":" id ` + id + ` "}`:                      {ID: id},
		`{"id":"[` + id + `]"}`:                         {ID: id},
		"{\"id\":\"`" + id + "`\",\"why\":\"because\"}": {ID: id},
		`{"id":"[tidemark stale read: Read · 3k tokens · id ` + id + `] it"}`: {ID: id},
		`"{\"id\":\"` + id + `\",\"head\":3}"`:                                {ID: id, Head: 3},
		`{"id":"` + id + `","head":"40"}`:                                     {ID: id, Head: 40},
		`{"id":"` + id + `","from":3.0,"to":" 7 "}`:                           {ID: id, From: 3, To: 7},
		`{"id":"` + id + `","from":3,"to":-1}`:                                {ID: id, From: 3},
		`{"id":"` + id + `","head":0,"tail":null,"from":"","grep":null}`:      {ID: id},
		`{"id":"` + id + `","grep":"a","context":99,"max_bytes":1e3}`:         {ID: id, Grep: "a", Context: 50, MaxBytes: 1000},
		`{"id":"` + id + `","offset":99999999999999}`:                         {ID: id, Offset: 1<<31 - 1},
	} {
		got, err := part.ParseJSON([]byte(input))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", input, err, d)
		}
	}
}

func TestParseJSONRefuses(t *testing.T) {
	for _, input := range []string{
		``, `null`, `[]`, `1`, `{}`, `{"id":""}`, `{"id":7}`, `{"id":"` + id[1:] + `"}`, `{"id":"` + id + `0"}`, `{"id":"` + strings.ToUpper(id) + `"}`,
		`{"id":"` + id + ` 76543210fedcba9876543210"}`, `{"id":"` + id + `","head":-1}`, `{"id":"` + id + `","head":1.5}`, `{"id":"` + id + `","head":true}`,
		`{"id":"` + id + `","head":"SECRET"}`, `{"id":"` + id + `","grep":["SECRET"]}`, `{"id":"` + id + `","head":1,"tail":1}`, `{"id":"` + id + `","head":1,"from":1}`,
		`{"id":"` + id + `","from":5,"to":4}`, `{"id":"` + id + `","grep":"` + strings.Repeat("SECRET", 200) + `"}`, `{"id":"` + id + `","x":"` + strings.Repeat("y", 1<<14) + `"}`,
		`{"id":"` + id + `","head":"NaN"}`,
	} {
		_, err := part.ParseJSON([]byte(input))
		if err == nil || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), id) {
			t.Errorf("%.80s: %v", input, err)
		}
	}
}

func TestParseQuery(t *testing.T) {
	for query, want := range map[string]part.Ask{
		"":                      {},
		"head=3":                {Head: 3},
		"from=2&to=9":           {From: 2, To: 9},
		"grep=a%7Cb&context=2":  {Grep: "a|b", Context: 2},
		"offset=5&max_bytes=10": {Offset: 5, MaxBytes: 10},
	} {
		values, _ := url.ParseQuery(query)
		got, err := part.ParseQuery(values)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", query, err, d)
		}
	}
	for _, query := range []string{"head=x", "head=-2", "head=1&head=1", "nope=1", "head=1&tail=1", "id=" + id} {
		values, _ := url.ParseQuery(query)
		if _, err := part.ParseQuery(values); err == nil {
			t.Errorf("%s: no error", query)
		}
	}
}

// TestSchema: the schema names all that is read, and is what providers take.
func TestSchema(t *testing.T) {
	var schema struct {
		Type       string
		Properties map[string]struct{ Type, Description string }
		Required   []string
	}
	if err := json.Unmarshal([]byte(part.Schema), &schema); err != nil {
		t.Fatal(err)
	}
	example := map[string]any{}
	for name, p := range schema.Properties {
		if p.Description == "" {
			t.Errorf("%s has no description", name)
		}
		switch p.Type {
		case "string":
			example[name] = "a"
		case "integer":
			example[name] = 3
		default:
			t.Errorf("%s is a %s", name, p.Type)
		}
	}
	example["id"] = id
	delete(example, "head")
	delete(example, "tail")
	input, _ := json.Marshal(example)
	got, err := part.ParseJSON(input)
	if d := cmp.Diff(part.Ask{ID: id, From: 3, To: 3, Grep: "a", Context: 3, Offset: 3, MaxBytes: 3}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if schema.Type != "object" || len(schema.Required) != 1 || len(schema.Properties) != 9 {
		t.Errorf("schema %+v", schema)
	}
}

// FuzzParseJSON: an ask that is read is sound, and an error quotes nothing.
func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"id":"` + id + `","head":"3","grep":"x"}`))
	f.Add([]byte(`"{\"id\":\"[id ` + id + `]\"}"`))
	f.Add([]byte(`{"id":"` + id + `","from":1e300}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		a, err := part.ParseJSON(input)
		if err != nil {
			return
		}
		if !part.ValidID(a.ID) || !strings.Contains(string(input), a.ID[:4]) && !strings.Contains(string(input), `\`) {
			t.Fatalf("id %q", a.ID)
		}
		if min(a.Head, a.Tail, a.From, a.To, a.Context, a.Offset, a.MaxBytes) < 0 || a.Context > 50 {
			t.Fatalf("%+v", a)
		}
	})
}
