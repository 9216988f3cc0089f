package simagent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what an event is.
type Kind string

// Kinds of events.
const (
	Send      Kind = "send"      // a request of the client
	Restart   Kind = "restart"   // kill -9 and start again
	Lose      Kind = "lose"      // the store is lost with all that was in it
	StoreFail Kind = "storefail" // On: the store fails from now on; else it works again
	Config    Kind = "config"    // Arg: bad, ok, off (no filters)
	Mode      Kind = "mode"      // Arg: active, shadow, off
)

// Outcome of a request at the provider.
const (
	OK      = "ok"
	Failed  = "err"     // 5xx: nothing happened
	Unknown = "unknown" // aborted: the provider read and wrote its cache all the same
)

// Event is one thing that happens.
type Event struct {
	At      time.Time
	Kind    Kind
	Body    []byte
	Reply   string // the answer's content blocks, JSON
	Outcome string
	Replica int
	Session string
	Seen    bool // false: it reaches the provider on another path, past tidemark
	Count   bool // count_tokens
	Class   string
	Bypass  bool
	L1      bool // tidemark is too slow: the deadline is over when it begins
	Drop    bool // the request asks for drop_block, beta header included
	TTFB    time.Duration
	On      bool
	Arg     string
	Line    string // conversation line, for messages of failing tests
}

// Features choose what the agent does. Unset ones are drawn.
type Features map[string]bool

// names of the features that are on or off, with the chance of each.
var chances = []struct {
	name string
	p    float64
}{
	{"volatile", .06},
	{"flipsys", .06},
	{"fork", .35},
	{"par", .3},
	{"sub", .35},
	{"side", .4},
	{"compact", .2},
	{"micro", .25},
	{"flip", .3},
	{"mswitch", .25},
	{"inter", .35},
	{"retry", .4},
	{"fail", .3},
	{"late", .2},
	{"restart", .25},
	{"lose", .06},
	{"storefail", .12},
	{"cfgch", .15},
	{"bypass", .12},
	{"failopen", .12},
	{"l1", .12},
	{"replicas", .25},
	{"shadow", .06},
	{"drop", .25},
	{"merge", .15},
	{"keepalive", .12},
	{"resume", .08},
	{"toolchg", .1},
	{"fallback", .1},
	{"slow", .1},
	{"samesub", .1},
	{"bound", .2},
	{"think", .4},
	{"strip", .2},
	{"small", .1},
}

// FeatureNames lists every feature.
func FeatureNames() []string {
	names := make([]string, len(chances))
	for i, c := range chances {
		names[i] = c.name
	}
	return names
}

// models of the agent's requests.
const (
	plainModel = "claude-sonnet-4-6"
	smallModel = "claude-haiku-4-5"
	boundModel = "claude-fable-5-2"
)

// line is one conversation of the client.
type line struct {
	name, model, session string
	tools                []string
	system               []block
	msgs                 []message
	sysvar               int
}

// agent makes the events.
type agent struct {
	r      *rand.Rand
	f      Features
	style  string
	ttl    string
	pauses string
	now    time.Time
	uid    int
	events []Event
	lines  []*line
	main   *line
}

// Play makes the events of one scenario. n is the number of steps, 0: drawn.
func Play(seed uint64, fixed Features, n int) ([]Event, Features) {
	a := &agent{r: rand.New(rand.NewPCG(seed, 1)), f: Features{}, now: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)}
	for _, c := range chances {
		a.f[c.name] = a.r.Float64() < c.p
	}
	a.style = pick(a.r, "claude", "claude", "claude", "opencode", "opencode", "four", "sys", "early")
	a.ttl = pick(a.r, "5m", "5m", "5m", "1h", "mixed")
	a.pauses = pick(a.r, "few", "many", "edge")
	maps.Copy(a.f, fixed)
	if a.f["bound"] && a.f["think"] && !a.f["drop"] { // then a client that changed what it had sent would be refused for ever
		for _, name := range []string{"micro", "compact", "merge", "inter", "volatile", "flipsys", "toolchg", "mswitch"} {
			a.f[name] = false
		}
	}
	if drawn := 8 + a.r.IntN(38); n == 0 {
		n = drawn
	}
	model := plainModel
	if a.f["bound"] {
		model = boundModel
	}
	start := a.now
	a.main = a.line("main", model, false)
	a.lines = []*line{a.main}
	a.run(n)
	slices.SortStableFunc(a.events, func(x, y Event) int { return x.At.Compare(y.At) })
	if a.f["late"] {
		enabled := start.Add(time.Duration(60+a.r.IntN(3900)) * time.Second)
		for i := range a.events {
			if a.events[i].Kind == Send && a.events[i].At.Before(enabled) {
				a.events[i].Seen = false
			}
		}
	}
	return a.events, a.f
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (a *agent) chance(p float64) bool { return a.r.Float64() < p }

func (a *agent) seconds(lo, hi float64) time.Duration {
	return time.Duration((lo + a.r.Float64()*(hi-lo)) * float64(time.Second))
}

func (a *agent) wait(lo, hi float64) { a.now = a.now.Add(a.seconds(lo, hi)) }

const words = "the quick request handler reads config from disk and returns early when limits apply to every client session "

// prose is text of about n tokens that occurs nowhere else.
func (a *agent) prose(n int) string {
	a.uid++
	head := fmt.Sprintf("item%d ", a.uid)
	return head + strings.Repeat(words, n*4/len(words)+1)[:max(1, n*4-len(head))]
}

func (a *agent) line(name, model string, sub bool) *line {
	tag := "m"
	if sub {
		tag = name
	}
	l := &line{name: name, model: model, session: "s"}
	for i := range 2 + a.r.IntN(3) {
		l.tools = append(l.tools, fmt.Sprintf(`{"name":"Tool%s%d","description":%s,"input_schema":{"type":"object"}}`, tag, i, quote(strings.Repeat(words, 1+a.r.IntN(3)))))
	}
	l.system = []block{textBlock("You are an agent " + tag + "."), textBlock(tag + strings.Repeat(words, a.headWords()))}
	return l
}

// headWords sizes the system prompt: real ones dwarf the smallest cacheable prompt, toy agents' do not.
func (a *agent) headWords() int {
	if a.f["small"] {
		return 20 + a.r.IntN(60)
	}
	return 350 + a.r.IntN(300)
}

// human pauses are those of a person between two prompts.
func (a *agent) pause(human bool) time.Duration {
	if !human {
		if a.chance(.93) {
			return a.seconds(1, 40)
		}
		return a.seconds(100, 420)
	}
	switch x := a.r.Float64(); {
	case a.pauses == "few":
		return a.seconds(5, 200)
	case a.pauses == "edge":
		return pick(a.r, a.seconds(280, 440), a.seconds(200, 330), a.seconds(3500, 4400), a.seconds(10, 60), a.seconds(400, 900))
	case x < .45:
		return a.seconds(5, 250)
	case x < .6:
		return a.seconds(260, 420)
	case x < .85:
		return a.seconds(420, 3000)
	case x < .93:
		return a.seconds(3300, 4300)
	}
	return a.seconds(4300, 40000)
}

func (a *agent) emit(l *line, b *body, reply []block, change func(*Event)) {
	e := Event{
		At: a.now, Kind: Send, Body: b.write(), Reply: replyJSON(reply), Outcome: OK, Session: l.session, Seen: true, Drop: b.drop,
		TTFB: a.seconds(.5, 5), Line: l.name,
	}
	if a.f["slow"] && a.chance(.15) {
		e.TTFB = a.seconds(20, 250)
	}
	if a.f["replicas"] {
		e.Replica = a.r.IntN(2)
	}
	e.Seen = !a.f["failopen"] || !a.chance(.06)
	e.L1 = a.f["l1"] && a.chance(.08)
	e.Bypass = a.f["bypass"] && a.chance(.1)
	if change != nil {
		change(&e)
	}
	a.events = append(a.events, e)
}

// control adds what happens to tidemark.
func (a *agent) control() {
	add := func(e Event) {
		e.At = a.now.Add(10 * time.Millisecond)
		if a.f["replicas"] {
			e.Replica = a.r.IntN(2)
		}
		a.events = append(a.events, e)
	}
	if a.f["restart"] && a.chance(.07) {
		add(Event{Kind: Restart})
	}
	if a.f["lose"] && a.chance(.04) {
		add(Event{Kind: Lose})
	}
	if a.f["storefail"] && a.chance(.08) {
		add(Event{Kind: StoreFail, On: a.chance(.5)})
	}
	if a.f["cfgch"] && a.chance(.08) {
		add(Event{Kind: Config, Arg: pick(a.r, "bad", "ok", "ok", "off")})
	}
	if a.f["shadow"] && a.chance(.2) {
		add(Event{Kind: Mode, Arg: pick(a.r, "active", "active", "shadow", "off")})
	}
}
