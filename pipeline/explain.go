package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
)

// Verdict is what became of one tool result in one request, for people. Outcome.Explain holds one for each result.
type Verdict struct {
	Call, Tool string
	Path       string // of the file that the call names, if it names one
	What       string // path and range that the call names, else the start of its arguments
	Msg, Turn  int32
	Tokens     int // Est of the result
	Zone       filters.Zone
	Held       bool      // held out of the cache
	Filter     string    // whose decision stands for the result; empty: it was forwarded verbatim
	Verdict    string    // of the decision
	ID         string    // of the original
	Marker     string    // what was forwarded in the result's place, as JSON
	Saves      int       // Est of what the decision leaves out
	Since      time.Time // when the decision was made
	Sum        string    // the planner's sum, where it made one for this result: of a hold, or of the warm move that would begin here
	// Gates are the reasons of the filters that were asked and left the result alone, in the order of the pipeline.
	Gates []FilterGate
}

// keep counts a gate of one result, and remembers it where the request wants to be explained.
func (p *pass) keep(filter string, result int32, gate filters.Gate) {
	p.count(filter, gate, 1)
	if p.r.Explain != ExplainNothing {
		if p.kept == nil {
			p.kept = map[int32][]FilterGate{}
		}
		p.kept[result] = append(p.kept[result], FilterGate{filter, gate})
	}
}

// summed remembers a sum of the planner's where the request wants to be explained.
func (p *pass) summed(result int32, sum fmt.Stringer) {
	if p.r.Explain != ExplainNothing {
		if p.sums == nil {
			p.sums = map[int32]string{}
		}
		p.sums[result] = sum.String()
	}
}

// explain fills in the verdicts on every result.
func (p *pass) explain() {
	if p.r.Explain == ExplainNothing || p.out == nil {
		return
	}
	decided := map[string]bool{}
	if p.r.Explain == ExplainNew {
		for i := range p.o.New {
			decided[p.o.New[i].Call] = !p.o.New[i].Drop
		}
	}
	for i := range p.ix.Results {
		if r := int32(i); p.r.Explain == ExplainAll || p.told(r, decided) {
			p.o.Explain = append(p.o.Explain, p.verdict(r))
		}
	}
}

// told reports whether there is something new to say of a result.
func (p *pass) told(result int32, decided map[string]bool) bool {
	r := &p.ix.Results[result]
	return r.Msg >= p.fresh || len(p.kept[result]) > 0 || decided[p.ix.CallID(r)] || p.newCut != nil && p.out.gone(result)
}

func (p *pass) verdict(result int32) Verdict {
	r := &p.ix.Results[result]
	v := Verdict{
		Call: strings.Clone(p.ix.CallID(r)), Msg: r.Msg, Turn: r.Turn, Tokens: p.ix.ResultTokens(result), Zone: p.zone(result),
		Gates: p.kept[result], Sum: p.sums[result],
	}
	_, v.Held = p.held[result]
	if r.Call >= 0 {
		v.Tool, v.What, v.Path = strings.Clone(p.toolName(result)), p.what(r.Call), strings.Clone(p.ix.CallFacts(r.Call).Path)
	}
	if p.out.gone(result) {
		c := p.out.span.cut
		v.Filter, v.Verdict, v.Since, v.Saves = c.Filter, c.Verdict, c.At, v.Tokens
		if len(c.IDs) == 1 { // of several the stub says which is which
			v.ID = c.IDs[0]
		}
		return v
	}
	if p.out.decided(result) {
		d := p.out.over[result]
		v.Filter, v.Verdict, v.ID, v.Marker = d.Filter, d.Verdict, d.ID, string(d.Content)
		v.Saves, v.Since = d.Tokens-d.MarkerTokens, d.At
		return v
	}
	if v.Zone == filters.Covered && p.gate == "" && len(v.Gates) == 0 {
		v.Gates = slices.Clone(v.Gates)
		for _, f := range p.r.Config.Filters {
			v.Gates = append(v.Gates, FilterGate{f.Name(), filters.CachedPrefix})
		}
	}
	return v
}

// maxWhat is how much of a call's arguments is shown where they name no file, in bytes.
const maxWhat = 80

// what names the file of a call, with the range that was read.
func (p *pass) what(call int32) string {
	f := p.ix.CallFacts(call)
	switch text := f.Range.String(); {
	case f.Path != "" && text != "":
		return f.Path + " (" + text + ")"
	case f.Path != "":
		return f.Path
	}
	input := p.ix.InputText(&p.ix.Calls[call])
	return strings.ToValidUTF8(input[:min(len(input), maxWhat)], "")
}
