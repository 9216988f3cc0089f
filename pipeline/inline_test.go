package pipeline_test

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// claude serves the Messages format.
var claude = vendor{
	models:  []string{plainModel},
	prepare: func(*rapid.T, *gen.Conversation) {},
	open: func(*rapid.T) func() func(string, []byte, time.Time) verdict {
		return func() func(string, []byte, time.Time) verdict {
			sim := simprovider.New(simprovider.Options{NoLog: true})
			return func(_ string, body []byte, at time.Time) verdict {
				res := sim.Call(body, http.Header{"X-Api-Key": {"k"}}, at)
				if res.Err != nil {
					return verdict{refused: res.Err.Error()}
				}
				u := res.Usage
				return verdict{usage: pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h}}
			}
		}
	},
}

// inlineDuel is a session whose model asks for what was left out.
type inlineDuel struct {
	*duel
	asked int
}

func newInlineDuel(t *rapid.T, c *pipeline.Config, f transcript.Format, v vendor) *inlineDuel {
	d := &inlineDuel{duel: newDuelAt(t, c, f, v)}
	d.giving = func(body []byte) (n int) {
		texts, _ := d.answers(body)
		for _, text := range texts {
			n += len(text) // no token is under a byte
		}
		return n
	}
	return d
}

var idIn = regexp.MustCompile(` id ([0-9a-f]{24})`)

// ask adds a call for an original and the client's answer to it.
func (d *inlineDuel) ask(id string) (call string) {
	d.asked++
	call = "toolu_ask" + strings.Repeat("x", d.asked)
	failed := gen.Result(call, "Error: No such tool available: "+part.Name)
	failed.Set("is_error", true)
	c := d.lines[d.cur]
	c.Unmark()
	c.Messages = append(slices.Clip(c.Messages),
		gen.Message{Role: "assistant", Blocks: []gen.Block{gen.Text("I need it."), gen.Call(call, part.Name, gen.Object{{Key: "id", Value: id}})}},
		gen.Message{Role: "user", Blocks: []gen.Block{failed}})
	c.Mark(gen.Short)
	return call
}

// answers are the texts of the calls for originals in a body, in order.
func (d *inlineDuel) answers(body []byte) (texts []string, tools int) {
	ix, err := transcript.Parse(body, d.f)
	if err != nil {
		d.t.Fatal(err)
	}
	defer ix.Release()
	for i := range ix.Results {
		if r := &ix.Results[i]; r.Call >= 0 && ix.ToolName(&ix.Calls[r.Call]) == part.Name {
			texts = append(texts, strings.Clone(ix.ResultText(r)))
		}
	}
	for i := range ix.Head {
		if b := &ix.Head[i]; b.Kind == transcript.Tool && transcript.IsToolOf(d.f, b.Raw.Of(body), part.Name) {
			tools++
			if int32(i) != ix.LastTool() {
				d.t.Fatal("the tool is not the last one")
			}
		}
	}
	return texts, tools
}

// TestInlineRestore: a conversation that is offered the tool from its first request on has it last in its tools ever after, what a
// model asks for stands in the place of the client's error byte for byte, and stays there whatever else becomes of the transcript,
// through restarts and pauses. No provider refuses any of it.
func TestInlineRestore(t *testing.T) {
	all := maps.Clone(vendors)
	all[transcript.Anthropic] = claude
	given := 0
	for f, v := range all {
		t.Run(f.String(), func(t *testing.T) {
			c := deepConfig(t, 0)
			c.Inline = true
			rapid.Check(t, func(t *rapid.T) {
				d := newInlineDuel(t, c, f, v)
				given += d.play()
			})
		})
	}
	if given == 0 {
		t.Error("nothing was given back")
	}
}

func (d *inlineDuel) play() (given int) {
	t := d.t
	var ids []string
	var want []string
	for i := range rapid.IntRange(6, 14).Draw(t, "requests") {
		c := d.lines[0]
		var original *state.Original
		act := "first"
		if i > 0 {
			act = pick(t, "act", "turn", "turn", "retry", "restart", "night", "ask", "ask")
		}
		switch act {
		case "restart":
			d.e.Flush(context.Background())
			d.restart()
		case "night":
			d.at = d.at.Add(72 * time.Hour)
			d.m.Turn(c)
		case "ask":
			if len(ids) == 0 {
				d.m.Turn(c)
				break
			}
			var err error
			if original, err = d.store.Original(context.Background(), pick(t, "id", ids...)); err != nil {
				t.Fatal(err)
			}
			d.ask(original.ID)
			want = append(want, part.Text(original.Content))
			given++
		case "turn":
			d.m.Turn(c)
		}
		c.Unmark()
		c.Mark(gen.Short)
		d.at = d.at.Add(7 * time.Second)
		s := d.turn()
		texts, tools := d.answers(s.out)
		if tools != 1 {
			t.Fatalf("%d tools give originals back (gate %q)", tools, s.o.Gate)
		}
		if !slices.Equal(texts, want) {
			t.Fatalf("given back %q, not %q (gate %q, %+v)", texts, want, s.o.Gate, s.o.Restored)
		}
		if original != nil && (len(s.o.Restored) != 1 || s.o.Restored[0].ID != original.ID || s.o.Restored[0].Result != pipeline.RestoreOK || s.o.Restored[0].Bytes != len(texts[len(texts)-1])) {
			t.Fatalf("%+v", s.o.Restored)
		}
		ids = ids[:0]
		for _, m := range idIn.FindAllSubmatch(s.out, -1) {
			if id := string(m[1]); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return given
}
