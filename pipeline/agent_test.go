package pipeline_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/filters/readmaturation"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/filters/tiered"
	"github.com/tidemark-dev/tidemark/internal/simagent"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// policy draws what the provider's documents leave open.
func policy(t *rapid.T) simprovider.Policy {
	return simprovider.Policy{
		Refresh:   rapid.SampledFrom([]simprovider.Refresh{simprovider.RefreshHit, simprovider.RefreshMarks, simprovider.RefreshAll}).Draw(t, "refresh"),
		SkipBelow: rapid.Bool().Draw(t, "skip below"),
		Upgrade:   rapid.Bool().Draw(t, "upgrade"),
		NoLift:    rapid.Bool().Draw(t, "no lift"),
	}
}

// scenario plays one random session in both worlds.
func scenario(t *rapid.T, c *pipeline.Config, change ...func(*world)) *world {
	features := simagent.Features{}
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(simagent.FeatureNames()), rapid.ID).Draw(t, "fixed") {
		features[name] = rapid.Bool().Draw(t, name)
	}
	seed := rapid.Uint64().Draw(t, "seed")
	steps := rapid.IntRange(4, 45).Draw(t, "steps")
	events, on := simagent.Play(seed, features, steps)
	flush := rapid.SampledFrom([]time.Duration{time.Second, 2 * time.Second, 20 * time.Second}).Draw(t, "flush")
	w := newWorld(c, policy(t), flush)
	w.trace = os.Getenv("TRACE") != "" // of one scenario: TRACE=1 go test -run … -rapid.failfile=…
	for _, f := range change {
		f(w)
	}
	w.play(events)
	for i, v := range w.violations {
		if i == 5 {
			break
		}
		t.Errorf("%v (features %v, %s)", v, on.On(), events[v.n].Line)
	}
	return w
}

var digits = regexp.MustCompile(`[0-9]+`)

// tally sums up scenarios, so that a run that proves nothing fails.
type tally struct {
	scenarios, requests, refused, moves, made, held, cuts, excused int
	reasons                                                        map[string]int
}

func (c *tally) add(w *world) {
	c.scenarios++
	c.requests += w.n + 1
	c.refused += w.refused
	for _, r := range w.reasons {
		if c.reasons == nil {
			c.reasons = map[string]int{}
		}
		c.reasons[digits.ReplaceAllString(r, "N")]++
	}
	c.moves += w.moves
	c.made += w.made
	c.held += w.held
	c.cuts += w.cuts
	c.excused += b2i(w.excused > 0)
}

func (c *tally) check(t *testing.T) {
	t.Helper()
	t.Logf("%+v", *c)
	if c.refused*20 > c.requests {
		t.Errorf("the provider refused %d of %d requests without tidemark: the agent is no client", c.refused, c.requests)
	}
}

// checkExcused checks that losses are not judged in few scenarios alone. Within one they come together: after an outage, or a rewind.
func (c *tally) checkExcused(t *testing.T) {
	t.Helper()
	if c.excused*20 > c.scenarios+60 {
		t.Errorf("in %d of %d scenarios cached tokens were lost after requests that went past tidemark", c.excused, c.scenarios)
	}
}

// TestAgentLifecycle is the heart of the suite: whatever an agent, its client, the store and the operator do, no request is
// refused that would not be refused anyway, no cached prefix is lost but at a declared move, and the bill is no higher.
func TestAgentLifecycle(t *testing.T) {
	c := config(t, "")
	var sum tally
	rapid.Check(t, func(t *rapid.T) {
		w := scenario(t, c)
		if !w.outage && w.cost > w.plainCost*1.0001 {
			t.Errorf("bill %.0f, without tidemark %.0f", w.cost, w.plainCost)
		}
		sum.add(w)
	})
	sum.check(t)
	sum.checkExcused(t)
	if sum.moves == 0 {
		t.Error("nothing ever moved: the scenarios prove nothing")
	}
}

// TestAgentLevers plays the levers alone, against providers on which a lift works and on which it does not: nothing is refused,
// nothing cached is lost, and no session is dearer than the regret allows.
func TestAgentLevers(t *testing.T) {
	c := config(t, "")
	c.Filters, c.Levers = nil, pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.01}
	var sum tally
	cost, plain, raised := 0.0, 0.0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := scenario(t, c)
		if !w.outage && w.cost > w.plainCost*1.0101+1.25*float64(w.forgot) {
			t.Errorf("bill %.0f, without tidemark %.0f", w.cost, w.plainCost)
		}
		if w.said.ineffective > 0 {
			t.Errorf("%d bodies are said not to have arrived", w.said.ineffective)
		}
		sum.add(w)
		raised += w.said.raised
		cost, plain = cost+w.cost, plain+w.plainCost
	})
	sum.check(t)
	sum.checkExcused(t)
	t.Logf("bill %.4f, %d lifts", cost/plain, raised)
	if raised == 0 {
		t.Error("nothing was ever lifted: the scenarios prove nothing")
	}
}

// TestAgentEverything plays with everything on: lifts, warm moves, economic holds, brake and guard. Warm moves bet on sessions
// that go on, so the bill is not compared; what is lawful and declared is.
func TestAgentEverything(t *testing.T) {
	c := config(t, "economic")
	keys := readlifecycle.Default()
	keys.StaleAtDepth = true
	deep, err := readlifecycle.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	c.Filters[0] = deep
	c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.01, Place: true}
	c.Moves = pipeline.Moves{Warm: true, MinGain: 0.001, Budget: 3, Spacing: 2, Horizon: 60, RawGuard: true, Brake: true}
	var sum tally
	warm, raised := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := scenario(t, c)
		sum.add(w)
		warm, raised = warm+w.warm, raised+w.said.raised
	})
	sum.check(t)
	sum.checkExcused(t)
	t.Logf("%d warm moves, %d lifts", warm, raised)
	if warm == 0 || raised == 0 || sum.moves == warm {
		t.Error("not everything acted: the scenarios prove nothing")
	}
}

// TestAgentHold is the same with every fresh read held. A hold costs what it declares, so the bill is not compared.
func TestAgentHold(t *testing.T) {
	c := config(t, "always")
	var sum tally
	rapid.Check(t, func(t *rapid.T) { sum.add(scenario(t, c)) })
	sum.check(t)
	sum.checkExcused(t)
	if sum.held == 0 {
		t.Error("nothing was ever held: the scenarios prove nothing")
	}
}

// smallFilters are all filters, by name, and those of them whose keys fit what an agent's short sessions hold: they must act.
func smallFilters(t *testing.T) (found map[string]filters.Filter, tuned []string) {
	t.Helper()
	found = map[string]filters.Filter{}
	for _, s := range all.Specs() {
		c := s.Default()
		tuned = append(tuned, s.Name)
		switch c := c.(type) {
		case *readlifecycle.Config:
			c.StaleAtDepth = true
		case *readmaturation.Config:
			c.Hold = readmaturation.Always
		case *tiered.Config:
			c.Window, c.StubDistance, c.MinTokens = 2, 4, 50
		case *coref.Config:
			c.MinLaterTurns, c.MinTokens, c.CutClosed, c.ClosedDist = 2, 50, true, 4
		case *shed.Config:
			c.Budget, c.Quantum, c.KeepRecentTurns = 4000, 1500, keepRecent
		default:
			tuned = tuned[:len(tuned)-1]
		}
		f, err := s.Build(c)
		if err != nil {
			t.Fatal(err)
		}
		found[s.Name] = f
	}
	return found, tuned
}

// keepRecent is how many turns the agent's cuts leave alone.
const keepRecent = 2

// TestAgentEachFilter plays every filter alone, at cold moments: the bill is no higher. A hold costs what it declares, and who
// goes back to before a cut has what was cut written anew.
func TestAgentEachFilter(t *testing.T) {
	pool, tuned := smallFilters(t)
	var sum tally
	acted := map[string]int{}
	play := func(names ...string) {
		rapid.Check(t, func(t *rapid.T) {
			name := rapid.SampledFrom(names).Draw(t, "filter")
			w := scenario(t, &pipeline.Config{Name: name, Filters: []filters.Filter{pool[name]}})
			if !w.outage && w.held == 0 && w.cutLost == 0 && w.cost > w.plainCost*1.0001 {
				t.Errorf("bill %.0f, without tidemark %.0f", w.cost, w.plainCost)
			}
			sum.add(w)
			acted[name] += w.by[name]
		})
	}
	play(all.Names()...)
	for _, name := range tuned {
		if acted[name] == 0 && !t.Failed() { // a fifth of the scenarios may all be too short for a cut
			play(name)
		}
	}
	sum.check(t)
	sum.checkExcused(t)
	checkActed(t, tuned, acted)
}

func checkActed(t *testing.T, tuned []string, acted map[string]int) {
	t.Helper()
	t.Logf("new decisions: %v", acted)
	for _, name := range tuned {
		if acted[name] == 0 {
			t.Errorf("%s never acted: the scenarios prove nothing", name)
		}
	}
}

// TestAgentShedsHumans plays cuts that leave out what humans said but for what is pinned.
func TestAgentShedsHumans(t *testing.T) {
	keys := shed.Default()
	keys.Budget, keys.Quantum, keys.KeepRecentTurns, keys.KeepHuman, keys.Pins = 5000, 1500, keepRecent, false, []string{"item1"}
	f, err := shed.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	c := &pipeline.Config{Name: "shed", Filters: []filters.Filter{f}, Moves: pipeline.Moves{Warm: true, Budget: 3, Horizon: 60}}
	var sum tally
	pinned := 0
	rapid.Check(t, func(t *rapid.T) {
		w := scenario(t, c, func(w *world) { w.pins = keys.Pins[0] })
		sum.add(w)
		pinned += w.pinned
	})
	sum.check(t)
	t.Logf("%d pins", pinned)
	if sum.cuts == 0 || pinned == 0 {
		t.Error("nothing was cut or pinned: the scenarios prove nothing")
	}
}

// TestAgentComposed plays any filters in any order, with and without warm moves and levers.
func TestAgentComposed(t *testing.T) {
	pool, tuned := smallFilters(t)
	var sum tally
	acted := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := &pipeline.Config{Name: "composed"}
		names := rapid.Permutation(all.Names()).Draw(t, "order")
		for _, name := range names[:rapid.IntRange(1, len(names)).Draw(t, "filters")] {
			c.Filters = append(c.Filters, pool[name])
		}
		if rapid.Bool().Draw(t, "levers") {
			c.Levers = pipeline.Levers{TTL: pipeline.AutoTTL, Regret: 0.01, Place: true}
		}
		if rapid.Bool().Draw(t, "warm") {
			c.Moves = pipeline.Moves{Warm: true, MinGain: 0.001, Budget: 3, Spacing: 2, Horizon: 60, RawGuard: true, Brake: true}
		}
		w := scenario(t, c)
		sum.add(w)
		for name, n := range w.by {
			acted[name] += n
		}
	})
	sum.check(t)
	checkActed(t, tuned, acted)
}
