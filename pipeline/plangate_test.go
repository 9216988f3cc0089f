package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// wishes is a filter that asks for every result that it may, as told.
type wishes struct {
	name string
	mode filters.MarkerMode
	cold bool
}

func (w wishes) Name() string { return w.name }

func (w wishes) Propose(v *filters.View) []filters.Proposal {
	all := eager{}.Propose(v)
	for i := range all {
		all[i].Mode, all[i].Policy.Cold = w.mode, w.cold
	}
	return all
}

// TestPlannerGates tells why the planner does not carry out what a filter asks for.
func TestPlannerGates(t *testing.T) {
	first, second := wishes{"first", filters.Full, true}, wishes{"second", filters.Full, true}
	meter, warm := wishes{"meter", filters.Meter, true}, wishes{"warm", filters.Full, false}
	reads, err := readlifecycle.New(readlifecycle.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		filters   []filters.Filter
		pause     time.Duration
		answer    string
		shortened string
		gates     map[pipeline.FilterGate]int // of the filters, for a and b
	}{
		{"what the provider may hold waits", []filters.Filter{first}, time.Minute, code, "", map[pipeline.FilterGate]int{{Filter: "first", Gate: filters.CachedPrefix}: 2}},
		{"until it cannot any more", []filters.Filter{first}, cold, code, "a b", nil},
		{"the first filter that asks for a result has it", []filters.Filter{first, second}, cold, code, "a b", map[pipeline.FilterGate]int{{Filter: "second", Gate: filters.Outranked}: 2}},
		{"whatever the order", []filters.Filter{second, first}, cold, code, "a b", map[pipeline.FilterGate]int{{Filter: "first", Gate: filters.Outranked}: 2}},
		{
			"a filter that has nothing to say of a result leaves it to the next",
			[]filters.Filter{reads, first},
			cold, code, "a b",
			map[pipeline.FilterGate]int{{Filter: "readlifecycle", Gate: filters.FreshRead}: 2},
		},
		{"marker_mode off is counted, and nothing else", []filters.Filter{meter}, cold, code, "", map[pipeline.FilterGate]int{{Filter: "meter", Gate: filters.MeterOnly}: 2}},
		{"who takes no part in cold moves is left out", []filters.Filter{warm}, cold, code, "", map[pipeline.FilterGate]int{{Filter: "warm", Gate: filters.ColdOff}: 2}},
		{"a marker that saves next to nothing is none", []filters.Filter{first}, cold, "a few words of output", "", map[pipeline.FilterGate]int{{Filter: "first", Gate: filters.MarkerNoGain}: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, &pipeline.Config{Name: "none"})
			k := newTalk().exchangeFile("a", c.answer).exchangeFile("b", c.answer)
			s.send(k, pipeline.KindNew, "")
			s.send(k.say("Go on."), pipeline.KindContinue, "")
			s.c = &pipeline.Config{Name: "test", Filters: c.filters}
			s.wait(c.pause)
			s.send(k.say("And on."), pipeline.KindContinue, c.shortened)
			got := map[pipeline.FilterGate]int{}
			for gate, n := range s.o.Gates {
				if gate.Filter != "" {
					got[gate] = n
				}
			}
			if len(got) != len(c.gates) {
				t.Errorf("gates %v, want %v", got, c.gates)
			}
			for gate, n := range c.gates {
				if got[gate] != n {
					t.Errorf("gates %v, want %v", got, c.gates)
				}
			}
		})
	}
}

// exchangeFile adds a turn that reads a file of its own.
func (k *talk) exchangeFile(id, answer string) *talk {
	return k.exchange(id, "Read", object("file_path", fmt.Sprint("/w/", id)), id+"\n"+answer)
}
