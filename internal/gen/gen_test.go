package gen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// normal is a JSON value with members sorted, repeated ones kept, and numbers and strings in one form.
func normal(t *rapid.T, d *json.Decoder) string {
	tok, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return fmt.Sprintf("%T %#v", tok, tok)
	}
	var parts []string
	for d.More() {
		part := ""
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			part = fmt.Sprintf("%#v: ", key)
		}
		parts = append(parts, part+normal(t, d))
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	if delim == '{' {
		slices.Sort(parts)
	}
	return delim.String() + strings.Join(parts, ",")
}

// However a conversation is written, it is JSON and means the same.
func TestBodyIsCompact(t *testing.T) {
	conversations := gentest.Conversation(gen.Options{Strange: true, Wild: true}, 4)
	differ := 0
	rapid.Check(t, func(t *rapid.T) {
		c := conversations.Draw(t, "conversation")
		for i := range c.Messages {
			c.Messages[i].String = false // the form of content and the ttl of a short breakpoint are the body's own choice
		}
		c.SystemString = false
		c.Unmark()
		wild, compact := c.Body(), c.Compact()
		if !json.Valid(wild) || !json.Valid(compact) {
			t.Fatalf("invalid JSON:\n%s\n%s", wild, compact)
		}
		a, b := normal(t, json.NewDecoder(bytes.NewReader(wild))), normal(t, json.NewDecoder(bytes.NewReader(compact)))
		if a != b {
			t.Fatalf("the body means something else:\n%s\n%s", wild, compact)
		}
		if !bytes.Equal(wild, compact) {
			differ++
		}
	})
	if differ == 0 {
		t.Error("no body was written in another way")
	}
}

type message struct {
	Role    string
	Content []struct {
		Type    string
		ID      string
		UseID   string `json:"tool_use_id"`
		Text    *string
		Control any `json:"cache_control"`
	}
}

// What is not strange is what a provider accepts: roles alternate, calls are answered in the next message, ids are unique,
// at most four breakpoints stand on blocks that may carry one, and the body ends with the user.
func TestLawful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := gentest.Conversation(gen.Options{Wild: true}, 6).Draw(t, "conversation")
		for i := range c.Messages {
			c.Messages[i].String = false
		}
		var body struct{ Messages []message }
		if err := json.Unmarshal(c.Body(), &body); err != nil {
			t.Fatal(err)
		}
		seen, markers := map[string]bool{}, 0
		var open []string
		for i, m := range body.Messages {
			if want := []string{"user", "assistant"}[i%2]; m.Role != want || len(m.Content) == 0 {
				t.Fatalf("message %d is of %s and has %d blocks", i, m.Role, len(m.Content))
			}
			var answered []string
			for _, b := range m.Content {
				switch b.Type {
				case "tool_use":
					if seen[b.ID] {
						t.Fatalf("id %s stands twice", b.ID)
					}
					seen[b.ID], open = true, append(open, b.ID)
				case "tool_result":
					answered = append(answered, b.UseID)
				case "text":
					if *b.Text == "" {
						t.Fatal("an empty text")
					}
				}
				if b.Control != nil {
					if markers++; b.Type == "thinking" {
						t.Fatal("a breakpoint on thinking")
					}
				}
			}
			if m.Role == "user" {
				if !slices.Equal(answered, open) {
					t.Fatalf("message %d answers %v, not %v", i, answered, open)
				}
				open = nil
			}
		}
		if len(body.Messages)%2 == 0 || markers > 4 {
			t.Fatalf("%d messages, %d breakpoints", len(body.Messages), markers)
		}
	})
}

// A conversation that grows keeps the bytes of what was said, and a clone goes its own way.
func TestGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := gen.New(gentest.Source(t), gen.Options{Strange: rapid.Bool().Draw(t, "strange"), Wild: true})
		c := m.Start()
		alone := func(c *gen.Conversation, i int) []byte {
			one := c.Clone()
			one.Unmark()
			one.Messages = one.Messages[i : i+1]
			return one.Body()
		}
		for range 3 {
			before, n := c.Clone(), len(c.Messages)
			m.Turn(c)
			c.Mark(gen.Long)
			if len(c.Messages) <= n || c.Ends()[len(c.Ends())-1] != len(c.Messages) {
				t.Fatalf("%d messages after %d", len(c.Messages), n)
			}
			for i := range n {
				if !bytes.Equal(alone(before, i), alone(c, i)) {
					t.Fatalf("message %d changed:\n%s\n%s", i, alone(before, i), alone(c, i))
				}
			}
		}
		kept := c.Body()
		fork := c.Clone()
		for range 4 {
			fork.Truncate(fork.Ends()[rapid.IntRange(0, len(fork.Ends())-1).Draw(t, "end")])
			if how := m.Edit(fork); how == "" {
				t.Fatal("an edit without a name")
			}
			m.Turn(fork)
			fork.Mark(gen.Short)
			if !json.Valid(fork.Body()) {
				t.Fatalf("invalid JSON: %s", fork.Body())
			}
		}
		if !bytes.Equal(c.Body(), kept) {
			t.Fatal("a fork changed what it was forked from")
		}
	})
}

// Equal sources give equal bodies.
func TestDeterministic(t *testing.T) {
	body := func(seed uint64) []byte {
		m := gen.New(rand.New(rand.NewPCG(seed, 0)), gen.Options{Strange: true, Wild: true})
		return m.Conversation(5).Body()
	}
	if !bytes.Equal(body(1), body(1)) || bytes.Equal(body(1), body(2)) {
		t.Error("the body is not a function of the source")
	}
}

func TestSurrogate(t *testing.T) {
	for unit, want := range map[uint16]string{0xd800: `"\ud800"`, 0xdbff: `"\udbff"`, 0xdc00: `"\udc00"`, 0xdfff: `"\udfff"`} {
		c := gen.Conversation{Messages: []gen.Message{{Role: "user", Blocks: []gen.Block{gen.Text(gen.Surrogate(unit))}, String: true}}}
		if got := string(c.Compact()); got != `{"messages":[{"role":"user","content":`+want+`}]}` {
			t.Errorf("%04x is written as %s", unit, got)
		}
	}
}
