package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// questionIn is the member as it stands at the end of a body.
var questionIn = regexp.MustCompile(`,"diagnostics":\{"previous_message_id":(null|"[A-Za-z0-9_-]{1,128}")\}(\}\s*)$`)

// asked is what a body asks to be compared with, as it is written; empty if it does not ask.
func asked(body []byte) string {
	if m := questionIn.FindSubmatch(body); m != nil {
		return string(m[1])
	}
	return ""
}

// curious is a scene in which every session asks.
func curious(t *testing.T) *scene {
	t.Helper()
	c := config(t, "")
	c.Diagnostics = 1
	return newScene(t, c)
}

// ask sends a body and returns what it asks.
func (s *scene) ask(k *talk, change ...func(*pipeline.Request)) string {
	s.Helper()
	s.at = s.at.Add(time.Second)
	k.Mark(gen.Short)
	r := ask(k.Body(), s.c, s.at)
	r.Session = s.session
	for _, c := range change {
		c(r)
	}
	s.o = s.e.Request(context.Background(), r)
	if s.o.Body == nil {
		return ""
	}
	if !json.Valid(s.o.Body) {
		s.Fatalf("no JSON: %s", s.o.Body)
	}
	return asked(s.o.Body)
}

// hears lets the provider answer the last request.
func (s *scene) hears(r *pipeline.Response) *pipeline.Observation {
	if r.Status == http.StatusOK && r.Usage == nil {
		r.Usage = &pipeline.Usage{Write5m: 10_000}
	}
	return s.e.Observe(context.Background(), s.o, r)
}

func (s *scene) wants(got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("asks %s, want %s (gate %q)", got, want, s.o.Gate)
	}
}

// TestDiagnosticsNames: a session opts in with null, then every request names the answer to the one before it on its branch.
func TestDiagnosticsNames(t *testing.T) {
	s := curious(t)
	k := newTalk()
	s.wants(s.ask(k), "null")
	s.wants(s.ask(k), "null") // again, as no answer came
	s.hears(&pipeline.Response{Status: 200, Message: "msg_1"})
	s.wants(s.ask(k.read("a1", "/w/a")), `"msg_1"`)
	s.hears(&pipeline.Response{Status: 500})
	fork := k.copy()
	s.wants(s.ask(k.read("a2", "/w/a2")), `"msg_1"`)
	s.hears(&pipeline.Response{Status: 200, Message: "msg_2-B"})
	s.restart()
	s.wants(s.ask(k.read("a3", "/w/a3")), "null") // what a crash forgets
	s.hears(&pipeline.Response{Status: 200, Message: "msg_3"})
	s.wants(s.ask(fork.read("b2", "/w/b").system("Be brief.")), `"msg_3"`)
	s.hears(&pipeline.Response{Status: 200, Message: "msg_4"})
	s.wants(s.ask(k.read("a4", "/w/a4")), `"msg_3"`)
	s.wants(s.ask(fork.read("b3", "/w/b3")), `"msg_4"`)
}

// TestDiagnosticsUnsafe: what is no plain word is never sent, whoever calls it an id.
func TestDiagnosticsUnsafe(t *testing.T) {
	for id, want := range map[string]string{
		"": "null", `a"b`: "null", `\`: "null", "a b": "null", "é": "null", "a\x00": "null", "null": `"null"`, "-_Zz09": `"-_Zz09"`,
		strings.Repeat("a", 128): `"` + strings.Repeat("a", 128) + `"`, strings.Repeat("a", 129): "null",
	} {
		s := curious(t)
		k := newTalk()
		s.ask(k)
		s.hears(&pipeline.Response{Status: 200, Message: "msg_1"})
		s.ask(k.read("a1", "/w/a"))
		s.hears(&pipeline.Response{Status: 200, Message: id})
		s.wants(s.ask(k.read("a2", "/w/a2")), want)
	}
}

// TestDiagnosticsSilent: who does not ask sends the bytes that came, and what such a request is answered cannot be named.
func TestDiagnosticsSilent(t *testing.T) {
	with := func(change func(*pipeline.Config)) func(*pipeline.Request) {
		return func(r *pipeline.Request) {
			c := *r.Config
			change(&c)
			r.Config = &c
		}
	}
	replace := func(from, to string) func(*pipeline.Request) {
		return func(r *pipeline.Request) { r.Body = bytes.Replace(r.Body, []byte(from), []byte(to), 1) }
	}
	for name, c := range map[string]struct {
		change func(*pipeline.Request)
		next   string // of the request after it
	}{
		"off":               {with(func(c *pipeline.Config) { c.Diagnostics = 0 }), "null"},
		"bypass":            {func(r *pipeline.Request) { r.Bypass = true }, "null"},
		"bad config":        {with(func(c *pipeline.Config) { c.Bad = true }), "null"},
		"shadow":            {with(func(c *pipeline.Config) { c.Mode = pipeline.Shadow }), "null"},
		"the client's own":  {replace(`{"model"`, `{"diagnostics":{"previous_message_id":null},"model"`), "null"},
		"an escaped one":    {replace(`{"model"`, `{"\u0064iagnostics":null,"model"`), "null"},
		"mode off":          {with(func(c *pipeline.Config) { c.Mode = pipeline.Off }), `"msg_1"`},
		"tokens are asked":  {func(r *pipeline.Request) { r.CountTokens = true }, `"msg_1"`},
		"auxiliary":         {func(r *pipeline.Request) { r.Auxiliary = true }, `"msg_1"`},
		"few tokens":        {replace(`"max_tokens":32000`, `"max_tokens":1`), `"msg_1"`},
		"thread":            {replace(`{"model"`, `{"thread":{"type":"continue"},"model"`), `"msg_1"`},
		"signed":            {func(r *pipeline.Request) { r.ClientSigned = true }, `"msg_1"`},
		"another format":    {func(r *pipeline.Request) { r.Format = transcript.UnknownFormat }, `"msg_1"`},
		"model in the path": {replace(`"model":"`+plainModel+`",`, ""), `"msg_1"`},
		"no body at all":    {func(r *pipeline.Request) { r.Body = []byte("{}") }, `"msg_1"`},
	} {
		s := curious(t)
		k := newTalk()
		s.ask(k)
		s.hears(&pipeline.Response{Status: 200, Message: "msg_1"})
		s.ask(k.read("a1", "/w/a"), c.change)
		if s.o.Body != nil || s.o.Gate == filters.ProofFailed {
			t.Errorf("%s: gate %q, %s is forwarded", name, s.o.Gate, s.o.Body)
		}
		s.hears(&pipeline.Response{Status: 200, Message: "msg_2"})
		if got := s.ask(k.read("a2", "/w/a2")); got != c.next {
			t.Errorf("%s: the next request asks %s, want %s", name, got, c.next)
		}
	}
}

// TestDiagnosticsDownTheLadder: a request that falls to the replay asks nothing, and the one after it starts anew.
func TestDiagnosticsDownTheLadder(t *testing.T) {
	s := curious(t)
	k := newTalk()
	s.ask(k)
	s.hears(&pipeline.Response{Status: 200, Message: "msg_1"})
	s.at = s.at.Add(time.Second)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if s.o = s.e.Request(over, ask(k.read("a1", "/w/a").Body(), s.c, s.at)); s.o.Body != nil || s.o.Gate != filters.Deadline {
		t.Fatalf("gate %q, %s", s.o.Gate, s.o.Body)
	}
	s.hears(&pipeline.Response{Status: 200, Message: "msg_2"})
	s.wants(s.ask(k.read("a2", "/w/b")), "null")
}

// TestDiagnosticsRefused: a provider that refuses a question is not asked again on that route.
func TestDiagnosticsRefused(t *testing.T) {
	s := curious(t)
	on := func(route string) func(*pipeline.Request) { return func(r *pipeline.Request) { r.Route = route } }
	k := newTalk()
	silent := *s.c
	silent.Diagnostics = 0
	s.ask(k, on("a"), func(r *pipeline.Request) { r.Config = &silent })
	s.hears(&pipeline.Response{Status: 400}) // of something else
	s.wants(s.ask(k, on("a")), "null")
	s.hears(&pipeline.Response{Status: 503})
	s.wants(s.ask(k, on("a")), "null")
	s.hears(&pipeline.Response{Status: 400})
	s.wants(s.ask(k, on("a")), "")
	s.wants(s.ask(k, on("b")), "null")
	s.session = "another"
	s.wants(s.ask(k, on("a")), "")
	s.restart()
	s.wants(s.ask(k, on("a")), "null")
}

// TestDiagnosticsUnheard: where no answer is seen, or none with an id, questions end; once one was seen they go on.
func TestDiagnosticsUnheard(t *testing.T) {
	for name, c := range map[string]struct {
		first, rest pipeline.Response
		want        int
	}{
		"nothing is seen":  {pipeline.Response{}, pipeline.Response{}, 16},
		"usage alone":      {pipeline.Response{Status: 200}, pipeline.Response{Status: 200}, 16},
		"one was answered": {pipeline.Response{Status: 200, Message: "msg_1"}, pipeline.Response{}, 40},
	} {
		s := curious(t)
		k, n := newTalk(), 0
		for i := range 40 {
			s.session = fmt.Sprint(i)
			n += b2i(s.ask(k) != "")
			r := c.rest
			if i == 0 {
				r = c.first
			}
			s.hears(&r)
		}
		if n != c.want {
			t.Errorf("%s: %d requests ask, want %d", name, n, c.want)
		}
	}
}

// TestDiagnosticsSample: a session asks in every request or in none, on every replica; a larger share adds sessions and takes
// none away.
func TestDiagnosticsSample(t *testing.T) {
	store := keyed{memory.New()}
	e, other := engineOn(t, store, epoch), engineOn(t, store, epoch)
	asks := func(e *pipeline.Engine, session string, share float64, k *talk) bool {
		r := ask(k.Body(), &pipeline.Config{Diagnostics: share}, epoch)
		r.Session = session
		o := e.Request(context.Background(), r)
		e.Observe(context.Background(), o, &pipeline.Response{Status: 200, Message: "msg_1", Usage: &pipeline.Usage{Write5m: 10_000}})
		return o.Body != nil
	}
	k, more := newTalk(), newTalk().read("a1", "/w/a")
	const sessions = 100
	var in [3]int
	for i := range sessions {
		session, last := fmt.Sprint(i), false
		for j, share := range []float64{0.1, 0.5, 1} {
			now := asks(e, session, share, k)
			if now != asks(other, session, share, more) || last && !now {
				t.Fatalf("session %s is in and out", session)
			}
			in[j] += b2i(now)
			last = now
		}
	}
	if in[0] < 5 || in[0] > 20 || in[1] < 40 || in[1] > 60 || in[2] != sessions { // always the same ones: the secret is given
		t.Errorf("%v of %d sessions ask", in, sessions)
	}
}

// TestDiagnosticsAcrossMoves: what tidemark itself changed is compared with nothing, even if the answer to the move never came.
func TestDiagnosticsAcrossMoves(t *testing.T) {
	for _, answered := range []bool{true, false} {
		s := curious(t)
		k := newTalk().read("a1", "/w/a").edit("a2", "/w/a")
		s.ask(k)
		s.hears(&pipeline.Response{Status: 200, Message: "msg_1"})
		s.wait(cold)
		s.wants(s.ask(k.read("b1", "/w/b")), "null")
		if s.o.Move == nil {
			t.Fatalf("nothing moved: %v", s.o.Gates)
		}
		want := "null"
		if answered {
			want = `"msg_2"`
			ob := s.hears(&pipeline.Response{Status: 200, Message: "msg_2", Miss: "messages_changed"}) // a client may ask itself
			if ob.Loss == nil || ob.Loss.Cause != pipeline.CauseTTL || ob.Loss.Diagnostics {
				t.Errorf("%+v", ob.Loss)
			}
		}
		s.wants(s.ask(k.read("c1", "/w/c")), want)
	}
}

// TestDiagnosticsLate: an answer to a request that the branch has gone on from is not named.
func TestDiagnosticsLate(t *testing.T) {
	s := curious(t)
	k := newTalk()
	s.ask(k)
	first := s.o
	s.ask(k.read("a1", "/w/a"))
	s.hears(&pipeline.Response{Status: 200, Message: "msg_2"})
	s.o = first
	s.hears(&pipeline.Response{Status: 200, Message: "msg_1"})
	s.wants(s.ask(k.read("a2", "/w/a2")), `"msg_2"`)
}

// TestLossByDiagnosis: a loss has the cause that the provider names, and says so.
func TestLossByDiagnosis(t *testing.T) {
	for _, share := range []float64{0, 1} {
		s := curious(t)
		s.c.Diagnostics = share
		sim := simprovider.New(simprovider.Options{})
		call := func(k *talk) *pipeline.Observation {
			s.ask(k)
			out := k.Body()
			if s.o.Body != nil {
				out = s.o.Body
			}
			return s.hears(answered(t, sim.Call(out, nil, s.at)))
		}
		k := newTalk().read("a1", "/w/a")
		call(k)
		call(k.read("a2", "/w/b"))
		s.wait(7 * time.Minute)
		k.Tools = k.Tools[:1]
		ob := call(k.read("a3", "/w/c"))
		if ob.Loss == nil || ob.Loss.Cause != pipeline.CauseClientTools || ob.Loss.Diagnostics != (share == 1) {
			t.Errorf("share %v: %+v", share, ob.Loss)
		}
	}
}

// answered is what the engine is told of a simulated response.
func answered(t fataler, res simprovider.Result) *pipeline.Response {
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	u := res.Usage
	r := &pipeline.Response{
		Status: res.Status, Message: res.ID, Model: res.Model,
		Usage: &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output},
	}
	if res.Miss != nil {
		r.Miss = res.Miss.Reason
	}
	return r
}

// TestDiagnosticsAgainstProvider plays sessions against a provider that answers questions, beside a twin that asks none: without
// the question the bytes are the twin's; the reason is what the client changed since the request that is named; a loss takes it
// over.
func TestDiagnosticsAgainstProvider(t *testing.T) {
	seen, configs := map[string]int{}, []*pipeline.Config{config(t, ""), config(t, "always")}
	rapid.Check(t, func(t *rapid.T) {
		c := *configs[rapid.IntRange(0, len(configs)-1).Draw(t, "config")]
		if rapid.Bool().Draw(t, "lifts") {
			c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.05}
		}
		twin := c
		c.Diagnostics = 1
		p := &inquiry{
			t: t, sim: simprovider.New(simprovider.Options{}), curious: engineWith(t), plain: engineWith(t), c: &c, twin: &twin,
			sent: map[string]compared{}, seen: seen, at: epoch,
			maker: gen.New(gentest.Source(t), gen.Options{Files: 1, ResultBytes: 6000}),
		}
		k := p.maker.Conversation(5)
		for range rapid.IntRange(3, 14).Draw(t, "requests") {
			p.change(k)
			if !p.send(k.Body()) {
				return
			}
		}
	})
	t.Logf("%v", seen)
	for _, what := range []string{
		"", simprovider.ModelChanged, simprovider.ToolsChanged, simprovider.SystemChanged, simprovider.MessagesChanged, simprovider.PreviousMessageNotFound,
		"opted in", "named", "moved", "loss",
	} {
		if seen[what] == 0 {
			t.Errorf("%q never happened", what)
		}
	}
}

func engineWith(t *rapid.T) *pipeline.Engine {
	e, err := pipeline.New(context.Background(), keyed{memory.New()}, pipeline.Options{Flush: -1, DeepProof: true})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// compared is a request whose answer may be named.
type compared struct {
	in, out [4]any
	at      time.Time
}

// inquiry is one session of TestDiagnosticsAgainstProvider.
type inquiry struct {
	t              *rapid.T
	maker          *gen.Maker
	sim            *simprovider.Sim
	curious, plain *pipeline.Engine
	c, twin        *pipeline.Config
	sent           map[string]compared // by the id of the answer
	seen           map[string]int
	at             time.Time
}

// change is what happens between two requests.
func (p *inquiry) change(k *gen.Conversation) {
	p.at = p.at.Add(10 * time.Second)
	if rapid.Bool().Draw(p.t, "pause") {
		p.at = p.at.Add(rapid.SampledFrom([]time.Duration{7 * time.Minute, 7 * time.Minute, 2 * time.Hour}).Draw(p.t, "wait"))
	}
	switch rapid.SampledFrom([]string{"", "", "", "", "edit", "system", "tools", "model", "rewind"}).Draw(p.t, "change") {
	case "edit":
		p.maker.Edit(k)
	case "system":
		k.System[len(k.System)-1] = gen.Text("You are agent " + rapid.StringMatching("[a-c]").Draw(p.t, "name"))
	case "tools":
		k.Tools = k.Tools[:rapid.IntRange(1, len(k.Tools)).Draw(p.t, "tools")]
	case "model":
		k.Model = rapid.SampledFrom([]string{"claude-sonnet-4-6", "claude-opus-4-6"}).Draw(p.t, "model")
	case "rewind":
		k.Truncate(rapid.SampledFrom(k.Ends()).Draw(p.t, "end"))
	}
	p.maker.Turn(k)
	k.Unmark()
	k.Mark(gen.Short)
}

// send plays one request; false if the provider refuses what the client sends.
func (p *inquiry) send(body []byte) bool {
	t, ctx, key := p.t, context.Background(), http.Header{"X-Api-Key": {"k"}}
	if p.sim.Call(body, http.Header{"X-Api-Key": {"probe"}}, p.at).Err != nil {
		return false
	}
	o, plain := p.curious.Request(ctx, ask(body, p.c, p.at)), p.plain.Request(ctx, ask(body, p.twin, p.at))
	id := asked(o.Body)
	if id == "" || !json.Valid(o.Body) {
		t.Fatalf("does not ask (gate %q): %s", o.Gate, o.Body)
	}
	want := body
	if plain.Body != nil {
		want = plain.Body
	}
	if got := questionIn.ReplaceAll(o.Body, []byte("$2")); !bytes.Equal(got, want) {
		t.Fatalf("without the question %s\nnot %s", got, want)
	}
	p.sameDigests(body, o, plain)
	now := compared{decoded(body), decoded(o.Body), p.at}
	reason := ""
	if id == "null" {
		p.seen["opted in"]++
	} else {
		p.seen["named"]++
		named, ok := p.sent[strings.Trim(id, `"`)]
		if !ok {
			t.Fatalf("names %s, which it was never told", id)
		}
		reason = parts(named.out, now.out)
		if by := parts(named.in, now.in); by != reason {
			t.Fatalf("the outbounds differ by %q, the client's bodies by %q", reason, by)
		}
		if now.at.Sub(named.at) > time.Hour {
			reason = simprovider.PreviousMessageNotFound
		}
	}
	res := p.sim.Call(o.Body, key, p.at)
	r := answered(t, res)
	if r.Miss != reason {
		t.Fatalf("the provider says %q, want %q", r.Miss, reason)
	}
	p.seen[reason]++
	p.seen["moved"] += b2i(o.Move != nil)
	if rapid.IntRange(0, 5).Draw(t, "lost") == 0 { // nobody sees the answer
		return true
	}
	p.sent[res.ID] = now
	ob := p.curious.Observe(ctx, o, r)
	r.Miss = ""
	other := p.plain.Observe(ctx, plain, r)
	if (ob.Loss == nil) != (other.Loss == nil) || other.Loss != nil && other.Loss.Diagnostics {
		t.Fatalf("loss %+v, without the question %+v", ob.Loss, other.Loss)
	}
	if cause := causes[reason]; ob.Loss != nil && (cause != "") != ob.Loss.Diagnostics || ob.Loss != nil && cause != "" && ob.Loss.Cause != cause {
		t.Fatalf("loss %+v of what %q says", ob.Loss, reason)
	}
	p.seen["loss"] += b2i(ob.Loss != nil && ob.Loss.Diagnostics)
	return true
}

var causes = map[string]pipeline.Cause{
	simprovider.ModelChanged: pipeline.CauseClientModel, simprovider.ToolsChanged: pipeline.CauseClientTools,
	simprovider.SystemChanged: pipeline.CauseClientSystem, simprovider.MessagesChanged: pipeline.CauseClientHistory,
}

// sameDigests checks that the question has no part in what branches and entries are known by.
func (p *inquiry) sameDigests(body []byte, o, plain *pipeline.Outcome) {
	h := transcript.NewHasher(bytes.Repeat([]byte("k"), 32))
	digests := func(b []byte) (list []transcript.Digest) {
		ix, err := transcript.Parse(b, transcript.Anthropic)
		if err != nil {
			p.t.Fatal(err)
		}
		defer ix.Release()
		ix.Digest(h)
		list = append(list, ix.Key)
		for i := range ix.Messages {
			list = append(list, ix.Messages[i].Hash)
		}
		return list
	}
	was := plain.Body
	if was == nil {
		was = body
	}
	if !reflect.DeepEqual(digests(o.Body), digests(was)) || o.Kind != plain.Kind || o.Cache != plain.Cache {
		p.t.Fatalf("kind %v, cache %v; without the question %v, %v", o.Kind, o.Cache, plain.Kind, plain.Cache)
	}
}

// decoded is what of a body the prompt is made of, as values: model, tools, system, and blocks of messages with their roles.
func decoded(body []byte) [4]any {
	v := mustParse(body)
	var system, messages []any
	for _, b := range listOf(v["system"]) {
		if text, _ := obj(b)["text"].(string); !strings.HasPrefix(text, "x-anthropic-billing-header") {
			system = append(system, b)
		}
	}
	all, _ := v["messages"].([]any)
	for _, m := range all {
		for _, b := range listOf(obj(m)["content"]) {
			messages = append(messages, []any{obj(m)["role"], b})
		}
	}
	return [4]any{v["model"], bare(v["tools"]), system, messages}
}

// listOf is content as a list of blocks without breakpoints.
func listOf(content any) []any {
	if text, ok := content.(string); ok {
		return []any{map[string]any{"type": "text", "text": text}}
	}
	list, _ := bare(content).([]any)
	return list
}

// parts says where a prompt parts from an earlier one, in the provider's order; empty if it goes on from it.
func parts(was, is [4]any) string {
	for i, reason := range []string{simprovider.ModelChanged, simprovider.ToolsChanged, simprovider.SystemChanged} {
		if !reflect.DeepEqual(was[i], is[i]) {
			return reason
		}
	}
	old, _ := was[3].([]any)
	now, _ := is[3].([]any)
	if len(now) < len(old) || !reflect.DeepEqual(now[:len(old)], old) {
		return simprovider.MessagesChanged
	}
	return ""
}
