package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// plays sends bodies to an engine, and what it makes of them to a provider. What is refused that would not be without the
// engine, or read by nobody, fails.
type plays struct {
	*testing.T

	e          *pipeline.Engine
	sim, plain *simprovider.Sim
	c          *pipeline.Config
	at         time.Time
	cached     int  // tokens through the last breakpoint of the last outbound
	strange    bool // the provider would refuse how the client writes numbers
}

func newPlays(t *testing.T, c *pipeline.Config) *plays {
	t.Helper()
	s := newScene(t, c)
	return &plays{T: t, e: s.e, sim: simprovider.New(simprovider.Options{}), plain: simprovider.New(simprovider.Options{}), c: c, at: epoch}
}

func (p *plays) send(body []byte, pause time.Duration) (o *pipeline.Outcome, out []byte) {
	p.Helper()
	p.at = p.at.Add(pause)
	r := ask(body, p.c, p.at)
	r.Tenant, r.Session = "t", "s"
	o = p.e.Request(context.Background(), r)
	if out = body; o.Body != nil {
		out = o.Body
	}
	if o.Undeclared || o.Desync {
		p.Errorf("undeclared %v, desync %v", o.Undeclared, o.Desync)
	}
	if p.strange {
		return o, out
	}
	key := http.Header{"X-Api-Key": {"k"}}
	if res := p.plain.Call(body, key, p.at); res.Status != http.StatusOK {
		p.Fatalf("the client's own body is refused: %v", res.Err)
	}
	res := p.sim.Call(out, key, p.at)
	if res.Status != http.StatusOK {
		p.Fatalf("refused: %v", res.Err)
	}
	u := res.Usage
	if pause < time.Minute && u.Read < p.cached {
		p.Errorf("read %d of %d tokens", u.Read, p.cached)
	}
	p.cached = u.Read + u.Write5m + u.Write1h
	p.e.Observe(context.Background(), o, &pipeline.Response{Status: res.Status, Message: res.ID, Model: res.Model, Usage: &pipeline.Usage{
		Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output,
	}})
	return o, out
}

// cuts plays a body, the next one after a pause, and one right after it: the second must be cut, and the third begin as the
// second did.
func (p *plays) cuts(first, second, third []byte) {
	p.Helper()
	if o, _ := p.send(first, 0); o.Move != nil {
		p.Fatalf("moved %+v", o.Move)
	}
	o, cut := p.send(second, cold)
	if o.Move == nil || len(o.New) != 1 || !o.New[0].Drop {
		p.Fatalf("no cut: move %+v, gates %v", o.Move, o.Gates)
	}
	if size := messageTokens(p.T, cut); size >= messageTokens(p.T, second)-o.New[0].Tokens/2 {
		p.Errorf("%d tokens of messages, %d left out", size, o.New[0].Tokens)
	}
	o, again := p.send(third, time.Second)
	if o.Move != nil {
		p.Fatalf("moved %+v", o.Move)
	}
	if p.strange {
		return
	}
	was, covered := sequence(cut)
	now, _ := sequence(again)
	for i := range was[:covered] {
		if i >= len(now) || was[i] != now[i] {
			p.Fatalf("block %d changed:\n%.300s", i, was[i])
		}
	}
}

func messageTokens(t *testing.T, body []byte) (n int) {
	t.Helper()
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	for m := range ix.Messages {
		n += ix.EstMessage(int32(m))
	}
	return n
}

// repeated is a body whose exchanges stand in it n times, each time under ids of their own, without the last skip messages.
// Breakpoints stand where the client put its own.
func repeated(body []byte, n, skip int) []byte {
	messages := gjson.GetBytes(body, "messages")
	list := messages.Array()
	all := []string{markerOf.ReplaceAllString(list[0].Raw, "")}
	for i := range n {
		for _, m := range list[1:] {
			raw := markerOf.ReplaceAllString(m.Raw, "")
			all = append(all, callIDOf.ReplaceAllString(raw, fmt.Sprintf(`${1}${2}_%d"`, i)))
		}
	}
	all = all[:len(all)-skip]
	if last := list[len(list)-1].Raw; markerOf.MatchString(last) {
		end := strings.LastIndex(all[len(all)-1], "}]") // of the last block
		all[len(all)-1] = all[len(all)-1][:end] + "," + strings.TrimPrefix(markerOf.FindString(last), ",") + all[len(all)-1][end:]
	}
	return []byte(string(body[:messages.Index]) + "[" + strings.Join(all, ",") + "]" + string(body[messages.Index+len(messages.Raw):]))
}

var callIDOf = regexp.MustCompile(`("(?:tool_use_id|id)":)("[^"]+)"`)

// TestCutOfEveryClient: of every recorded session of a real client, made long by saying it again, a part can be cut, with budgets
// for a short session and with the defaults.
func TestCutOfEveryClient(t *testing.T) {
	dir := os.Getenv("TIDEMARK_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	for _, client := range []string{"claude", "opencode"} {
		files, err := filepath.Glob(filepath.Join(dir, "captures", client, "*.body.json"))
		if err != nil {
			t.Fatal(err)
		}
		var body []byte // the longest one
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if gjson.GetBytes(b, "messages.#").Int() > gjson.GetBytes(body, "messages.#").Int() {
				body = b
			}
		}
		for name, change := range map[string]func(*shed.Config){
			"small":    func(c *shed.Config) { c.KeepRecentTurns = shed.Default().KeepRecentTurns },
			"defaults": func(c *shed.Config) { *c = shed.Default() },
		} {
			t.Run(client+"/"+name, func(t *testing.T) {
				if body == nil {
					t.Skipf("no captures of %s in %s: set TIDEMARK_SHARED", client, dir)
				}
				c := shedding(t, change)
				n, budget := 2, shed.Default().Budget
				if name == "small" {
					budget = 7000
				}
				for messageTokens(t, repeated(body, n, 0)) < budget*5/4 {
					n++
				}
				t.Logf("%d messages, said %d times", gjson.GetBytes(body, "messages.#").Int(), n)
				newPlays(t, c).cuts(repeated(body, n, 4), repeated(body, n, 2), repeated(body, n, 0))
			})
		}
	}
}

// TestCutOfAnyShape: however a client writes its JSON and wherever it puts its breakpoints, a part of its session can be cut.
func TestCutOfAnyShape(t *testing.T) {
	marks := map[string]func(*gen.Conversation){
		"system and last": func(k *gen.Conversation) { k.Mark(gen.Short) },
		"an hour":         func(k *gen.Conversation) { k.Mark(gen.Long) },
		"automatic":       func(k *gen.Conversation) { k.Unmark(); k.TopMarker = gen.Short },
		"two messages": func(k *gen.Conversation) {
			k.Mark(gen.Short)
			for m := len(k.Messages) - 2; m >= 0; m-- {
				if b := k.Messages[m].Blocks; k.Messages[m].Role == "user" {
					b[len(b)-1].Marker = gen.Short
					return
				}
			}
		},
	}
	for name, mark := range marks {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				r := rand.New(rand.NewPCG(seed, 6))
				p := newPlays(t, shedding(t))
				p.strange = seed%2 == 1
				m := gen.New(r, gen.Options{Wild: p.strange, ResultBytes: 900})
				k := m.Start()
				k.SystemString = false
				k.System = append(k.System, gen.Text(strings.Repeat("You are a coding agent. ", 600)))
				for range 60 {
					m.Turn(k)
				}
				ends := k.Ends()
				var bodies [][]byte
				for _, end := range ends[len(ends)-3:] {
					c := k.Clone()
					c.Truncate(end)
					mark(c)
					bodies = append(bodies, c.Body())
				}
				p.cuts(bodies[0], bodies[1], bodies[2])
			}
		})
	}
}
