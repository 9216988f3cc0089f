package pipeline_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// shedding is a config that cuts soon.
func shedding(t *testing.T, change ...func(*shed.Config)) *pipeline.Config {
	t.Helper()
	keys := shed.Default()
	keys.Budget, keys.Quantum, keys.KeepRecentTurns = 7000, 3000, 2
	for _, f := range change {
		f(&keys)
	}
	f, err := shed.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Config{Name: "shed", Filters: []filters.Filter{f}}
}

// cutScene plays requests and looks at which messages are sent.
type cutScene struct {
	*scene
	in, out []byte
	stub    string
}

func newCutScene(t *testing.T, c *pipeline.Config) *cutScene {
	t.Helper()
	return &cutScene{scene: newScene(t, c)}
}

var markerOf = regexp.MustCompile(`,?"cache_control":\{[^}]*\}`)

// messagesOf are the raw messages of a body, without breakpoints.
func messagesOf(body []byte) (list []string) {
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		list = append(list, markerOf.ReplaceAllString(m.Raw, ""))
	}
	return list
}

var stubOf = regexp.MustCompile(`(?s)^(.*),\{"type":"text","text":("\[tidemark (?:[^"\\]|\\.)*")\}(\].*)$`)

// kept names the messages of the body that are sent, by number; a + says that the stub stands on it.
func kept(t *testing.T, in, out []byte) (sent, stub string) {
	t.Helper()
	was, now := messagesOf(in), messagesOf(out)
	at := 0
	var words []string
	for i, m := range now {
		plus := ""
		if s := stubOf.FindStringSubmatch(m); s != nil {
			if stub != "" {
				t.Fatal("two stubs")
			}
			m, plus, stub = s[1]+s[3], "+", gjson.Parse(s[2]).Str
		}
		for at < len(was) && was[at] != m && wrapped(was[at]) != m {
			at++
		}
		if at == len(was) {
			t.Fatalf("message %d of what is sent is none of the client's: %.300s", i, m)
		}
		words = append(words, fmt.Sprint(at)+plus)
		at++
	}
	return strings.Join(words, " "), stub
}

// wrapped is a message whose content is a string with a list in its place.
func wrapped(m string) string {
	c := gjson.Get(m, "content")
	if c.Type != gjson.String {
		return m
	}
	return m[:c.Index] + `[{"type":"text","text":` + c.Raw + `}]` + m[c.Index+len(c.Raw):]
}

// send sends a body and checks which of its messages leave.
func (s *cutScene) send(k *talk, kind pipeline.Kind, want string) {
	s.Helper()
	k.Mark(gen.Short)
	s.sendMarked(k, kind, want)
}

func (s *cutScene) sendMarked(k *talk, kind pipeline.Kind, want string) {
	s.Helper()
	s.at = s.at.Add(time.Second)
	s.in = k.Body()
	r := ask(s.in, s.c, s.at)
	r.Tenant, r.Session = s.tenant, s.session
	s.o = s.e.Request(context.Background(), r)
	if s.out = s.in; s.o.Body != nil {
		s.out = s.o.Body
	}
	if want == "all" {
		words := make([]string, len(k.Messages))
		for i := range words {
			words[i] = fmt.Sprint(i)
		}
		want = strings.Join(words, " ")
	}
	var got string
	got, s.stub = kept(s.T, s.in, s.out)
	if got != want || s.o.Kind != kind {
		s.Fatalf("sent %s, want %s (kind %v, gate %q, %v)", got, want, s.o.Kind, s.o.Gate, s.o.Gates)
	}
	if s.o.Undeclared || s.o.Desync {
		s.Fatalf("undeclared %v, desync %v", s.o.Undeclared, s.o.Desync)
	}
}

// long is a conversation of n reads of about 1,150 tokens each; every message but the first is one of a pair.
func long(n int) *talk {
	k := newTalk()
	for i := range n {
		k.read(fmt.Sprintf("r%d", i), fmt.Sprintf("/w/f%d", i))
	}
	return k
}

// sentFrom lists the first message and those from n on.
func sentFrom(n, messages int) string {
	words := []string{"0+"}
	for m := n; m < messages; m++ {
		words = append(words, fmt.Sprint(m))
	}
	return strings.Join(words, " ")
}

// cutAfterPause begins a scene in which a pause has cut the first messages.
func cutAfterPause(t *testing.T, c *pipeline.Config) (s *cutScene, k *talk, from int) {
	t.Helper()
	s, k = newCutScene(t, c), long(9)
	s.send(k, pipeline.KindNew, "all")
	s.wait(cold)
	k.read("x1", "/w/x1")
	probe := shedFrom(t, s.c, k)
	s.send(k, pipeline.KindContinue, sentFrom(probe, len(k.Messages)))
	return s, k, probe
}

// proposalsOf asks the first filter of a config about a conversation that nothing is cached of.
func proposalsOf(t *testing.T, c *pipeline.Config, k *talk) []filters.Proposal {
	t.Helper()
	ix, err := transcript.Parse(k.Body(), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	return c.Filters[0].Propose(&filters.View{Index: ix, Turn: ix.LastTurn()})
}

// shedFrom is the first message that a cut of this conversation keeps.
func shedFrom(t *testing.T, c *pipeline.Config, k *talk) int {
	t.Helper()
	for _, p := range proposalsOf(t, c, k) {
		if p.Action == filters.Drop {
			return int(p.Cut.Next)
		}
	}
	t.Fatal("nothing would be cut")
	return 0
}

func TestCutAtAColdMoment(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	if from < 3 || from >= len(k.Messages)-2*2 {
		t.Fatalf("the cut ends at message %d of %d", from, len(k.Messages))
	}
	if m := s.o.Move; m == nil || m.Kind != pipeline.Cold || m.Filter != shed.Name || m.From != 0 || m.Tokens <= 0 {
		t.Errorf("move %+v", m)
	}
	if len(s.o.New) != 1 || !s.o.New[0].Drop || s.o.New[0].Filter != shed.Name || s.o.New[0].Verdict != shed.First {
		t.Errorf("new %+v", s.o.New)
	}
	original, err := s.store.Original(context.Background(), s.o.New[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := "["+strings.Join(messagesOf(s.in)[1:from], ",")+"]", string(original.Content); got != want {
		t.Error("the original is not what was left out")
	}
	first := s.stub
	if !strings.Contains(first, s.o.New[0].ID) {
		t.Errorf("stub %q", first)
	}
	for range 3 { // between moves the cut stands still
		k.read(fmt.Sprintf("y%d", len(k.Messages)), "/w/y")
		s.send(k, pipeline.KindContinue, sentFrom(from, len(k.Messages)))
		if s.stub != first {
			t.Errorf("the stub became %q", s.stub)
		}
	}
	s.restart()
	s.send(k.read("z1", "/w/z"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	s.c = &pipeline.Config{Name: "none"} // nothing of the config is needed to replay
	s.send(k.read("z2", "/w/z"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	if s.stub != first {
		t.Errorf("the stub became %q", s.stub)
	}
}

func TestCutGrows(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	first := s.stub
	for i := range 8 {
		s.send(k.read(fmt.Sprintf("y%d", i), "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages)))
	}
	s.wait(cold)
	k.read("z1", "/w/z")
	s.at = s.at.Add(time.Second)
	k.Mark(gen.Short)
	s.in = k.Body()
	r := ask(s.in, s.c, s.at)
	r.Tenant, r.Session = s.tenant, s.session
	s.o = s.e.Request(context.Background(), r)
	got, stub := kept(t, s.in, s.o.Body)
	if !strings.HasPrefix(stub, first+"\n[tidemark cut: ") {
		t.Errorf("stub %q, before %q", stub, first)
	}
	var next int
	if _, err := fmt.Sscanf(got, "0+ %d", &next); err != nil || next <= from {
		t.Errorf("sent %s, before from %d", got, from)
	}
	if len(s.o.New) != 1 || s.o.New[0].Verdict != shed.Again {
		t.Fatalf("new %+v", s.o.New)
	}
	original, err := s.store.Original(context.Background(), s.o.New[0].ID)
	if err != nil || "["+strings.Join(messagesOf(s.in)[from:next], ",")+"]" != string(original.Content) {
		t.Errorf("the original is not what was left out now: %v", err)
	}
}

// TestCutAfterClientEdits: what the client changes behind the cut, or inside of the span, is its own affair.
func TestCutAfterClientEdits(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	stub := s.stub
	back := k.cut(len(k.Messages)-2).read("x2", "/w/x2") // the last turn is another one
	s.send(back, pipeline.KindFork, sentFrom(from, len(back.Messages)))
	inside := k.copy().read("x3", "/w/x3")
	*inside.block(2, 0) = gen.Result("r0", "[cleared]")
	s.send(inside, pipeline.KindFork, sentFrom(from, len(inside.Messages)))
	if s.stub != stub {
		t.Errorf("the stub became %q", s.stub)
	}
}

// TestCutLost: the client takes the first kept message away. All is sent, and nothing is cut again before it is cold.
func TestCutLost(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	other := k.copy()
	*other.block(from, 0) = gen.Text("Another step.")
	c := s.c
	s.c = &pipeline.Config{Name: "none"}
	s.send(other, pipeline.KindFork, "all")
	s.c = c
	s.send(other.read("y1", "/w/y"), pipeline.KindContinue, "all")
	if s.o.Gates[pipeline.FilterGate{Filter: shed.Name, Gate: filters.CutLost}] == 0 {
		t.Errorf("gates %v", s.o.Gates)
	}
	s.send(k.read("y2", "/w/y"), pipeline.KindContinue, sentFrom(from, len(k.Messages))) // the branch that it forked from
	s.wait(cold)
	other.read("y3", "/w/y")
	s.send(other, pipeline.KindContinue, sentFrom(shedFrom(t, s.c, other), len(other.Messages)))
}

// TestCutKeepsHumans: what a human said in the span stays, with what it answers; without keep_human pins are hoisted.
func TestCutKeepsHumans(t *testing.T) {
	const goal = "[tidemark:goal] keep the parser compatible\nand mind the \"limits\""
	begin := func() *talk {
		return long(3).say("Now the other one.").read("s1", "/w/s1").say(goal).read("s2", "/w/s2")
	}
	grow := func(k *talk) *talk {
		for i := range 6 {
			k.read(fmt.Sprintf("t%d", i), "/w/t")
		}
		return k
	}
	for _, c := range []struct {
		name   string
		change func(*shed.Config)
		want   string
		stub   string
	}{
		{"humans stay", func(*shed.Config) {}, "0+ 7 8 11 12 21", ""},
		{"pins", func(c *shed.Config) { c.KeepHuman = false }, "0+ 21", "\n" + goal},
		{"no pins", func(c *shed.Config) { c.KeepHuman, c.Pins = false, nil }, "0+ 21", "\nfirst words of a human in it: \"Now the other one.\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newCutScene(t, shedding(t, c.change, func(c *shed.Config) { c.Quantum, c.Budget = 4600, 6500 }))
			k := grow(begin())
			s.send(k, pipeline.KindNew, "all")
			s.wait(cold)
			k.read("u", "/w/u")
			s.send(k, pipeline.KindContinue, c.want+rest(21, len(k.Messages)))
			if !strings.HasSuffix(s.stub, "]"+c.stub) {
				t.Errorf("stub %q", s.stub)
			}
		})
	}
}

func rest(n, messages int) (text string) {
	for m := n + 1; m < messages; m++ {
		text += fmt.Sprint(" ", m)
	}
	return text
}

// TestCutOfStringContent: a head whose content is a string becomes a list of two texts, and equals it for the cache.
func TestCutOfStringContent(t *testing.T) {
	s, k := newCutScene(t, shedding(t)), long(9)
	k.Messages[0].String = true
	s.send(k, pipeline.KindNew, "all")
	if c := gjson.GetBytes(s.in, "messages.0.content"); c.Type != gjson.String {
		t.Fatal("the head is no string")
	}
	s.wait(cold)
	k.read("x1", "/w/x1")
	s.send(k, pipeline.KindContinue, sentFrom(shedFrom(t, s.c, k), len(k.Messages)))
}

// TestCutWarm: with warm moves a span goes where that pays back, and not where it does not.
func TestCutWarm(t *testing.T) {
	play := func(t *testing.T, horizon int) *live {
		t.Helper()
		c := shedding(t)
		c.Moves = pipeline.Moves{Warm: true, Budget: 3, Horizon: horizon}
		l := newLive(t, c, simprovider.Policy{})
		k := newTalk()
		for i := range 14 {
			k.Mark(gen.Short)
			l.askAny(k.Conversation)
			l.ob = l.observe(l.answer())
			if l.o.Move != nil {
				return l
			}
			k.read(fmt.Sprintf("r%d", i), "/w/f")
		}
		return l
	}
	t.Run("pays", func(t *testing.T) {
		l := play(t, 200)
		if m := l.o.Move; m == nil || m.Kind != pipeline.Warm || m.Filter != shed.Name || m.Sum.Gain <= 0 {
			t.Fatalf("move %+v, gates %v", m, l.o.Gates)
		}
		if sent, _ := kept(t, l.in, l.out); !strings.HasPrefix(sent, "0+ ") {
			t.Errorf("sent %s", sent)
		}
	})
	t.Run("does not pay", func(t *testing.T) {
		l := play(t, 1)
		if l.o.Move != nil || l.o.Gates[pipeline.FilterGate{Filter: shed.Name, Gate: filters.Unprofitable}] == 0 {
			t.Errorf("move %+v, gates %v", l.o.Move, l.o.Gates)
		}
	})
}

// TestCutTakenBack: the outcome came too late, so the cut was never seen.
func TestCutTakenBack(t *testing.T) {
	s, k, from := cutAfterPause(t, shedding(t))
	s.o.Dropped(context.Background())
	s.send(k.read("y1", "/w/y"), pipeline.KindContinue, "all") // what went instead is cached now
	s.wait(cold)
	k.read("y2", "/w/y")
	s.send(k, pipeline.KindContinue, sentFrom(shedFrom(t, s.c, k), len(k.Messages)))
	if from == 0 {
		t.Error("nothing was cut before")
	}
}

// TestCutFaults: a store that fails, or a proof that does, leaves the original on its way.
func TestCutFaults(t *testing.T) {
	s, k := newCutScene(t, shedding(t)), long(9)
	f := &faulty{Store: memory.New()}
	s.store = f
	s.restart()
	s.send(k, pipeline.KindNew, "all")
	s.wait(cold)
	f.fail = true
	s.send(k.read("x1", "/w/x1"), pipeline.KindContinue, "all")
	f.fail = false
	s.send(k.read("x2", "/w/x2"), pipeline.KindContinue, "all")
}

// TestCutOrder: a cut outranks what other filters would do inside of it, whichever comes first.
func TestCutOrder(t *testing.T) {
	for _, first := range []bool{true, false} {
		c := shedding(t)
		c.Filters = append(c.Filters, eager{})
		if !first {
			slices.Reverse(c.Filters)
			c = &pipeline.Config{Name: "both", Filters: c.Filters}
		}
		s, k := newScene(t, c), long(9)
		play := func() *pipeline.Outcome {
			k.Mark(gen.Short)
			s.at = s.at.Add(time.Second)
			r := ask(k.Body(), c, s.at)
			r.Tenant, r.Session = s.tenant, s.session
			return s.e.Request(context.Background(), r)
		}
		play()
		s.wait(cold)
		k.read("x1", "/w/x1")
		o := play()
		inside := 0
		for _, d := range o.New {
			if d.Drop {
				inside = o.Gates[pipeline.FilterGate{Filter: "eager", Gate: filters.InCut}]
			}
		}
		if first && inside == 0 {
			t.Errorf("new %+v, gates %v", o.New, o.Gates)
		}
		if !first && o.Gates[pipeline.FilterGate{Filter: shed.Name, Gate: filters.UnderBudget}] == 0 { // nothing is left to cut
			t.Errorf("new %+v, gates %v", o.New, o.Gates)
		}
	}
}
