package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// TestInlineAmongForksAndCuts: forks, edits, cuts, pauses, replicas and several calls in a turn neither take the tool away nor change
// what was given back, and no provider refuses what becomes of it.
func TestInlineAmongForksAndCuts(t *testing.T) {
	given, forks, cuts := 0, 0, 0
	for f, v := range map[transcript.Format]vendor{transcript.Anthropic: claude, transcript.Chat: vendors[transcript.Chat], transcript.Converse: vendors[transcript.Converse]} {
		t.Run(f.String(), func(t *testing.T) {
			c := deepConfig(t, 1200)
			c.Inline = true
			rapid.Check(t, func(t *rapid.T) {
				d := newInlineDuel(t, c, f, v)
				d.wild(map[string]*int{"given": &given, "forks": &forks, "cuts": &cuts})
			})
		})
	}
	if given == 0 || forks == 0 || cuts == 0 {
		t.Errorf("the walks prove nothing: %d given back, %d forks, %d cuts", given, forks, cuts)
	}
}

// askMany adds a turn that calls for several originals, and the client's answers.
func (d *inlineDuel) askMany(ids []string) {
	d.asked++
	c := d.lines[d.cur]
	c.Unmark()
	said := gen.Message{Role: "assistant", Blocks: []gen.Block{gen.Text("I need it.")}}
	answer := gen.Message{Role: "user"}
	for i, id := range ids {
		call := fmt.Sprintf("toolu_ask%dx%d", d.asked, i)
		failed := gen.Result(call, "Error: No such tool available: "+part.Name)
		if i%2 == 0 {
			failed.Set("is_error", true)
		}
		said.Blocks = append(said.Blocks, gen.Call(call, part.Name, gen.Object{{Key: "id", Value: id}}))
		answer.Blocks = append(answer.Blocks, failed)
	}
	c.Messages = append(slices.Clip(c.Messages), said, answer)
	c.Mark(gen.Short)
}

// wild plays a session and counts what happened in it.
func (d *inlineDuel) wild(n map[string]*int) {
	t := d.t
	given, asked := map[string]string{}, map[string]string{} // by call: what it was given, and the client's answer as it was written first
	var ids []string
	engines := []*pipeline.Engine{d.e, nil}
	for i := range rapid.IntRange(6, 14).Draw(t, "requests") {
		if i > 0 {
			switch pick(t, "what", "act", "act", "ask", "night", "replica") {
			case "act":
				d.act()
				engines[0] = d.e
			case "replica":
				engines[0].Flush(context.Background())
				if engines[1] == nil {
					d.restart()
					engines[1] = d.e
				}
				engines[0], engines[1] = engines[1], engines[0]
				d.e = engines[0]
				d.act()
				engines[0] = d.e
			case "night":
				d.at = d.at.Add(72 * time.Hour)
				d.m.Turn(d.lines[d.cur])
			case "ask":
				if len(ids) > 0 {
					d.askMany(rapid.SliceOfN(rapid.SampledFrom(ids), 1, 3).Draw(t, "ids"))
				}
			}
		}
		d.lines[d.cur].Unmark()
		d.lines[d.cur].Mark(gen.Short)
		d.at = d.at.Add(7 * time.Second)
		s := d.turn()
		if s.o.Kind == pipeline.KindFork {
			*n["forks"]++
		}
		*n["cuts"] += b2i(s.o.Cut > 0)
		ix, err := transcript.Parse(s.out, d.f)
		if err != nil {
			t.Fatal(err)
		}
		_, tools := d.answers(s.out)
		if s.o.Kind == pipeline.KindNew && i > 0 { // the first message was edited: it is another conversation
			return
		}
		if tools != 1 {
			t.Fatalf("%d tools (gate %q, kind %v)", tools, s.o.Gate, s.o.Kind)
		}
		for r := range ix.Results {
			res := &ix.Results[r]
			if res.Call < 0 || ix.ToolName(&ix.Calls[res.Call]) != part.Name {
				continue
			}
			text := strings.Clone(ix.ResultText(res))
			key := ix.CallID(res) + fmt.Sprint(ix.InputText(&ix.Calls[res.Call]))
			if !strings.HasPrefix(ix.CallID(res), "toolu") {
				continue
			}
			answer := rawResult(t, d.f, s.in, ix.CallID(res))
			if was, ok := asked[key]; ok && was != answer { // the client wrote its own answer anew: that is another result, of long ago
				continue
			}
			asked[key] = answer
			if was, ok := given[key]; ok && was != text {
				t.Fatalf("call %s: %.60q stood there, now %.60q (kind %v, gate %q)", key, was, text, s.o.Kind, s.o.Gate)
			}
			given[key] = text
			if strings.Contains(text, "No such tool") {
				t.Fatalf("call %s was not given back (kind %v gate %q %+v)", key, s.o.Kind, s.o.Gate, s.o.Restored)
			}
			*n["given"]++
		}
		ix.Release()
		for _, m := range idIn.FindAllSubmatch(s.out, -1) {
			if id := string(m[1]); !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
}

// rawResult is the block of a body that answers a call, as it is written.
func rawResult(t *rapid.T, f transcript.Format, body []byte, call string) string {
	ix, err := transcript.Parse(body, f)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	for i := range ix.Results {
		if r := &ix.Results[i]; ix.CallID(r) == call {
			return string(ix.Blocks[r.Block].Raw.Of(body))
		}
	}
	t.Fatalf("call %s has no answer", call)
	return ""
}
