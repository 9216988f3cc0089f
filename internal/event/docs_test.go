package event_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
)

const page = "docs/events.md"

// recipe is a call of jq in the page, and the answer that follows it. The file is its input, also where tail follows it.
var recipe = regexp.MustCompile("(?s)(```sh\n(?:tail [^|]*\\| )?jq (-[a-z]+) (?:--unbuffered )?'([^']*)'(?: events\\.jsonl)?\n```\n\n```text\n)(.*?)(```)")

// Every recipe of the page says what the page shows. With -update the page shows what they say.
func TestRecipes(t *testing.T) {
	root, err := eventtest.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, page)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := eventtest.Lines(t, eventtest.Scene()...)
	n := 0
	got := recipe.ReplaceAllFunc(text, func(all []byte) []byte {
		n++
		m := recipe.FindSubmatch(all)
		flags, program := string(m[2]), string(m[3])
		answer := answer(t, flags, program, lines)
		byJQ(t, flags, program, lines, answer)
		return slices.Concat(m[1], []byte(answer), m[5])
	})
	if asked := strings.Count(string(text), "jq -"); n != asked {
		t.Errorf("%d recipes of %d are understood", n, asked)
	}
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // documentation is for everybody.
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(got), string(text)); diff != "" {
		t.Errorf("%s does not show what its recipes say: %s", page, diff)
	}
}

// answer runs a program with flags of jq: s for all inputs as one list, r for strings as they are.
func answer(t *testing.T, flags, program string, lines []byte) string {
	t.Helper()
	q, err := gojq.Parse(program)
	if err != nil {
		t.Fatalf("%v in %s", err, program)
	}
	var inputs []any
	for d := json.NewDecoder(bytes.NewReader(lines)); d.More(); {
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, v)
	}
	if strings.Contains(flags, "s") {
		inputs = []any{inputs}
	}
	var out strings.Builder
	for _, v := range inputs {
		iter := q.Run(v)
		for {
			v, ok := iter.Next()
			if !ok {
				break
			}
			if err, bad := v.(error); bad {
				t.Fatalf("%v in %s", err, program)
			}
			if text, ok := v.(string); ok && strings.Contains(flags, "r") {
				fmt.Fprintln(&out, text)
				continue
			}
			b, err := gojq.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, string(b))
		}
	}
	return out.String()
}

// byJQ asks the original too, where there is one.
func byJQ(t *testing.T, flags, program string, lines []byte, want string) {
	t.Helper()
	jq, err := exec.LookPath("jq")
	if err != nil {
		return
	}
	cmd := exec.CommandContext(t.Context(), jq, flags, program)
	cmd.Stdin = bytes.NewReader(lines)
	got, err := cmd.Output()
	if err != nil || string(got) != want {
		t.Errorf("jq says otherwise: %v, %s", err, cmp.Diff(want, string(got)))
	}
}

// The page names every event.
func TestPageNamesEvents(t *testing.T) {
	root, err := eventtest.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	for name := range every {
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("%s has no line for %s", page, name)
		}
	}
	if want := fmt.Sprintf("`v` is %d.", event.Version); !strings.Contains(string(text), want) {
		t.Errorf("%s does not say %q", page, want)
	}
}
