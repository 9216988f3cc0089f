package pipeline_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// untilLifted plays small turns until one is lifted.
func (l *live) untilLifted(k *talk) {
	l.Helper()
	for range 40 {
		if l.small(k, 1); l.o.Breakpoints.Raised > 0 {
			return
		}
	}
	l.Fatal("nothing was ever lifted")
}

// TestLift tells when breakpoints ask for an hour.
func TestLift(t *testing.T) {
	for _, c := range []struct {
		name   string
		ttl    pipeline.TTL
		policy simprovider.Policy
		play   func(l *live)
	}{
		{"the first request asks for five minutes", pipeline.AutoTTL, simprovider.Policy{}, func(l *live) {
			l.c.Levers.Regret = 1
			l.turn(l.talk())
			l.want("first", "5m 5m")
		}},
		{"a small increment lifts, and nothing else changes", pipeline.AutoTTL, simprovider.Policy{}, smallLifts},
		{"a big increment does not", pipeline.AutoTTL, simprovider.Policy{}, func(l *live) {
			l.c.Levers.Regret = 1
			k := l.talk()
			l.turn(k)
			l.untilLifted(k)
			l.turn(k.read("a1", "/w/a"))
			l.want("big", "5m 5m")
			l.untilLifted(k)
		}},
		{"without any usage nothing is lifted", pipeline.AutoTTL, simprovider.Policy{}, func(l *live) {
			l.c.Levers.Regret = 1
			l.saw = func(r *pipeline.Response) { *r = pipeline.Response{} }
			k := l.talk()
			for range 30 {
				l.small(k, 1)
				l.want("blind", "5m 5m")
			}
		}},
		{"a request that relies on an unconfirmed lift asks for five minutes, and confirms it", pipeline.AutoTTL, simprovider.Policy{}, confirmsLift},
		{"two lifts that did not hold end it on the route", pipeline.AutoTTL, simprovider.Policy{NoLift: true}, misjudgesLift},
		{"what the client's own hour did is no word on lifts", pipeline.AutoTTL, simprovider.Policy{}, ownHour},
		{"a fork's ledger starts at zero", pipeline.AutoTTL, simprovider.Policy{}, forkedLedger},
		{"a body that asks for an hour itself is left alone", pipeline.AutoTTL, simprovider.Policy{}, func(l *live) {
			k := l.talk()
			for range 12 {
				k.say("Go on.").Mark(gen.Long)
				l.marked(k)
				if !bytes.Equal(l.in, l.out) {
					l.Fatal("it was changed")
				}
			}
		}},
		{"lift lowers big increments once a pause has confirmed it", pipeline.LiftTTL, simprovider.Policy{}, lowers},
		{"one that did not hold for the last of a prefix is misjudged too", pipeline.LiftTTL, simprovider.Policy{NoLift: true}, misjudgesPart},
		{"1h asks for an hour from the first request on", pipeline.HourTTL, simprovider.Policy{}, func(l *live) {
			k := l.talk()
			l.turn(k)
			l.want("first", "1h 1h")
			l.turn(k.read("a1", "/w/a"))
			l.want("big", "1h 1h")
			l.turn(k.say("Go on."), func(r *pipeline.Request) { r.Config = &pipeline.Config{Bad: true} })
			l.want("bad config", "5m 5m")
		}},
		{"a bound model is lifted too", pipeline.AutoTTL, simprovider.Policy{}, func(l *live) {
			l.model = "claude-opus-5-5"
			k := l.talk()
			l.turn(k)
			if l.untilLifted(k); !l.o.Bound {
				l.Error("not bound")
			}
		}},
		{"a body without its history is left alone", pipeline.HourTTL, simprovider.Policy{}, func(l *live) {
			k := l.talk()
			k.Extra = gen.Object{{Key: "thread", Value: gen.Object{{Key: "type", Value: "new"}}}}
			k.Mark(gen.Short)
			if l.ask(k.Conversation); l.o.Gate != filters.DeltaBody || !bytes.Equal(l.in, l.out) {
				l.Errorf("gate %q", l.o.Gate)
			}
		}},
		{"a retry may be lifted", pipeline.AutoTTL, simprovider.Policy{}, func(l *live) {
			k := l.talk()
			l.turn(k)
			l.small(k, 1)
			for range 30 {
				if l.turn(k); l.o.Kind != again {
					l.Fatalf("kind %v", l.o.Kind)
				}
				if l.o.Breakpoints.Raised > 0 {
					l.want("retry", "1h 1h")
					return
				}
			}
			l.Error("no retry was lifted")
		}},
		{"neither a bypass nor a bad config is", pipeline.AutoTTL, simprovider.Policy{}, func(l *live) {
			k := l.talk()
			l.turn(k)
			l.untilLifted(k)
			bad := *l.c
			bad.Bad = true
			for range 8 {
				l.turn(k.say("Go on."), bypass)
				l.want("bypass", "5m 5m")
				l.turn(k.say("Go on."), func(r *pipeline.Request) { r.Config = &bad })
				l.want("bad config", "5m 5m")
			}
			l.untilLifted(k)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.play(newLive(t, lifting(c.ttl), c.policy)) })
	}
}

// smallLifts: the outbound is the body with every marker asking for an hour.
func smallLifts(l *live) {
	k := l.talk()
	l.turn(k)
	l.untilLifted(k)
	l.want("lifted", "1h 1h")
	asked := regexp.MustCompile(`"cache_control":\{[^}]*\}`)
	if string(asked.ReplaceAll(l.in, nil)) != string(asked.ReplaceAll(l.out, nil)) {
		l.Error("more than breakpoints changed")
	}
	u := l.ob.Usage
	if u.Read == 0 || u.Write1h == 0 || u.Write5m != 0 || u.Write1h*20 > u.Read {
		l.Errorf("billed %+v: no lift of a whole prefix by a small increment", *u)
	}
}

// confirmsLift: after a pause that only an hour outlives the request asks for five minutes, as nobody knows whether lifts work
// here; it reads all of it, and from then on such requests ask for an hour.
func confirmsLift(l *live) {
	k := l.talk()
	l.turn(k)
	l.untilLifted(k)
	before := through(l.ob.Usage)
	l.wait(20 * time.Minute)
	l.small(k, 1)
	l.want("after the first pause", "5m 5m")
	if l.ob.Usage.Read != before || l.ob.LiftMisjudged || l.ob.Loss != nil {
		l.Fatalf("read %d of %d (%+v)", l.ob.Usage.Read, before, l.ob)
	}
	l.untilLifted(k)
	l.wait(20 * time.Minute)
	l.small(k, 1)
	l.want("after the second pause", "1h 1h")
}

// misjudgesLift: the provider writes for an hour, says so, and forgets after five minutes. Two such lifts end it on the branch,
// those of two sessions on the route.
func misjudgesLift(l *live) {
	begin := func(name string) *talk {
		l.session = name
		k := l.talk().system(strings.Repeat("You are agent "+name+". ", 1500))
		l.turn(k)
		return k
	}
	fails := func(k *talk) {
		l.Helper()
		l.untilLifted(k)
		l.wait(20 * time.Minute)
		if l.small(k, 1); !l.ob.LiftMisjudged {
			l.Fatalf("not misjudged: %+v", l.ob.Usage)
		}
		l.want("after a pause", "5m 5m")
	}
	never := func(what string, k *talk) {
		l.Helper()
		for range 40 {
			l.small(k, 1)
			l.want(what, "5m 5m")
		}
	}
	first := begin("first")
	fails(first)
	fails(first)
	never("a branch with two misjudged lifts", first)
	fails(begin("second"))
	never("a route with lifts misjudged in two sessions", begin("third"))
	l.route = "other"
	l.untilLifted(begin("fourth"))
}

// ownHour: a prefix that the client had written for an hour outlives a pause wherever lifts do not work.
func ownHour(l *live) {
	k := l.talk()
	for range 4 {
		k.say("Go on.").Mark(gen.Long)
		l.marked(k)
	}
	l.wait(20 * time.Minute)
	k.say("Go on.").Mark(gen.Long)
	if l.marked(k); l.ob.Usage.Read == 0 {
		l.Fatal("nothing was read")
	}
	l.session = "another"
	f := l.talk().system(strings.Repeat("You are another agent. ", 1500))
	l.turn(f)
	l.untilLifted(f)
	l.wait(20 * time.Minute)
	l.small(f, 1)
	l.want("after a pause that nothing lifted has outlived before", "5m 5m")
}

// forkedLedger: what the parent has paid and saved says nothing of a fork.
func forkedLedger(l *live) {
	k := l.talk()
	l.turn(k)
	l.untilLifted(k)
	l.wait(20 * time.Minute)
	l.small(k, 1)
	l.wait(20 * time.Minute)
	l.untilLifted(k)
	l.wait(20 * time.Minute)
	l.small(k, 12) // two pauses have saved more than any lift costs
	l.want("the parent", "1h 1h")
	f := k.cut(len(k.Messages) - 2)
	l.turn(f.say("Go that way."))
	if l.o.Kind != forks {
		l.Fatalf("kind %v", l.o.Kind)
	}
	l.want("the fork", "5m 5m")
	l.untilLifted(f)
}

// hour plays one request as a client sends it that asks for an hour.
func (l *live) hour(k *talk) {
	l.Helper()
	k.Mark(gen.Long)
	l.marked(k)
}

// lowers: big increments of a client that asks for an hour are written for five minutes, and lifted by the next small one.
func lowers(l *live) {
	k := l.talk()
	hour := func() { l.Helper(); l.hour(k) }
	hour()
	k.say("Go on.")
	hour()
	k.read("a1", "/w/a")
	hour()
	l.want("before a pause", "1h 1h")
	l.wait(20 * time.Minute)
	k.read("b1", "/w/b")
	hour()
	l.want("the request that confirms it", "1h 1h")
	k.read("c1", "/w/c")
	hour()
	l.want("big", "5m 5m")
	if l.ob.Usage.Write1h > 0 || l.ob.Usage.Write5m == 0 {
		l.Errorf("billed %+v", *l.ob.Usage)
	}
	k.say("Go on.")
	hour()
	l.want("small", "1h 1h")
	before := through(l.ob.Usage)
	l.wait(20 * time.Minute)
	k.say("Go on.")
	if hour(); l.ob.Usage.Read != before || l.ob.LiftMisjudged {
		l.Errorf("read %d of %d", l.ob.Usage.Read, before)
	}
}

// misjudgesPart: the client's own hour holds, but not what was written for five minutes behind it and lifted.
func misjudgesPart(l *live) {
	k := l.talk()
	hour := func() { l.Helper(); l.hour(k) }
	hour()
	k.say("Go on.")
	hour()
	l.wait(20 * time.Minute)
	k.say("Go on.")
	hour()
	k.read("a1", "/w/a").read("a2", "/w/b").read("a3", "/w/c")
	hour()
	l.want("big", "5m 5m")
	k.say("Go on.")
	hour()
	l.want("small", "1h 1h")
	before := through(l.ob.Usage)
	l.wait(20 * time.Minute)
	k.say("Go on.")
	if hour(); l.ob.Usage.Read == 0 || l.ob.Usage.Read+3000 > before || !l.ob.LiftMisjudged {
		l.Errorf("read %d of %d, misjudged %v", l.ob.Usage.Read, before, l.ob.LiftMisjudged)
	}
}

// TestLiftsStayAffordable: whatever a session does and whether lifts work, its bill never exceeds that of the bodies as they
// came by more than the regret, as long as no lapse has said whether a lift pays; and something is lifted.
func TestLiftsStayAffordable(t *testing.T) {
	lifts := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := newLive(t, lifting(pipeline.AutoTTL), simprovider.Policy{Upgrade: rapid.Bool().Draw(rt, "upgrade"), NoLift: rapid.Bool().Draw(rt, "no lift")})
		l.c.Levers.Regret = rapid.SampledFrom([]float64{0.002, 0.01, 0.03}).Draw(rt, "regret")
		plain := simprovider.New(simprovider.Options{NoLog: true})
		k := l.talk()
		var ours, theirs float64
		for turn := range rapid.IntRange(5, 16).Draw(rt, "turns") {
			l.turn(k)
			u := l.res.Usage
			u.Output = 0
			ours += simprovider.Units(l.res.Model, u)
			r := plain.Call(l.in, l.header, l.at)
			v := r.Usage
			v.Output = 0
			theirs += simprovider.Units(r.Model, v)
			lifts += l.o.Breakpoints.Raised
			if ours > theirs*(1+l.c.Levers.Regret) {
				rt.Fatalf("bill %.0f, without lifts %.0f", ours, theirs)
			}
			l.wait(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 4 * time.Minute}).Draw(rt, "pause"))
			if id := fmt.Sprint("r", turn); rapid.Bool().Draw(rt, "reads") {
				k.exchange(id, "Read", gen.Object{{Key: "file_path", Value: "/w/a"}}, code[:rapid.SampledFrom([]int{100, 1000, len(code)}).Draw(rt, "bytes")])
			} else {
				k.say("Go on.")
			}
		}
	})
	if lifts == 0 {
		t.Error("nothing was ever lifted")
	}
}
