package pipeline

import (
	"bytes"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Reused is content that had been left out and that the model asked for again.
type Reused struct {
	Call   string // that brings it back
	Filter string // that had left it out
	Kind   ReuseKind
	Tokens int   // Est of what came back
	Turns  int32 // between both

	msg int32
}

// ReuseKind says how content came back.
type ReuseKind string

// Kinds of reuse.
const (
	Reread     ReuseKind = "reread"   // a file, or a part of it, was read again, and nothing in it had changed
	Rerun      ReuseKind = "rerun"    // the same call was made again, and said the same
	RestoredIt ReuseKind = "restored" // the original was asked for
)

// leastReread is how much of a file says that it is the same one, in bytes.
const leastReread = 64

// usedAgain finds, among the results that this request brings, those that say again what had been left out. A file that was
// changed in between, and a command that says something else now, would have been asked for anyway.
func (p *pass) usedAgain() (all []Reused) {
	if p.side != "" || p.m.branch == nil || p.out == nil || p.m.kind == KindNew {
		return nil
	}
	for _, done := range p.o.Restored {
		if done.Result == RestoreOK {
			all = append(all, Reused{Call: done.Call, Filter: done.Filter, Kind: RestoredIt, Tokens: done.Tokens, msg: p.last})
		}
	}
	var gone []int32 // what earlier requests left out
	for i := range p.ix.Results {
		if r := int32(i); p.ix.Results[i].Msg < p.fresh && p.ix.Results[i].Call >= 0 && (p.out.gone(r) || p.out.decided(r) && p.out.over[r].Filter != Restore) {
			gone = append(gone, r)
		}
	}
	for i := range p.ix.Results {
		r := &p.ix.Results[i]
		if len(gone) == 0 || r.Msg < p.fresh || r.Call < 0 || p.out.decided(int32(i)) {
			continue
		}
		if a := p.again(int32(i), gone); a.Kind != "" {
			a.Call, a.Tokens, a.msg = strings.Clone(p.ix.CallID(r)), p.ix.ResultTokens(int32(i)), r.Msg
			all = append(all, a)
		}
	}
	return all
}

// again says of which result that was left out this one is a return.
func (p *pass) again(result int32, gone []int32) (a Reused) {
	ix := p.ix
	r := &ix.Results[result]
	restores := ix.Restores(r.Call)
	input, facts := ix.InputText(&ix.Calls[r.Call]), ix.CallFacts(r.Call)
	for _, g := range gone {
		old := &ix.Results[g]
		filter, id := p.leftOutBy(g)
		switch {
		case restores:
			if id != "" && strings.Contains(input, id) {
				a.Kind = RestoredIt
			}
		case facts.Role == transcript.Read:
			was := ix.CallFacts(old.Call)
			if facts.Path != "" && was.Role == transcript.Read && was.Path == facts.Path && was.Place == facts.Place && p.sameText(r, old) {
				a.Kind = Reread
			}
		case ix.ToolName(&ix.Calls[r.Call]) == ix.ToolName(&ix.Calls[old.Call]) && input == ix.InputText(&ix.Calls[old.Call]) &&
			bytes.Equal(r.Content.Of(ix.Body), old.Content.Of(ix.Body)):
			a.Kind = Rerun
		}
		if a.Kind != "" {
			a.Filter, a.Turns = filter, r.Turn-old.Turn
			return a
		}
	}
	return a
}

// leftOutBy is whose decision left a result out, and the id of its original, if it has one of its own.
func (p *pass) leftOutBy(result int32) (filter, id string) {
	if p.out.gone(result) {
		return p.out.span.cut.Filter, ""
	}
	d := p.out.over[result]
	return d.Filter, d.ID
}

// sameText reports whether one result holds what the other does, or a part of it that tells.
func (p *pass) sameText(a, b *transcript.Result) bool {
	if bytes.Equal(a.Content.Of(p.ix.Body), b.Content.Of(p.ix.Body)) {
		return true
	}
	x, y := p.firstText(a), p.firstText(b)
	return len(x) >= leastReread && len(y) >= leastReread && (bytes.Contains(x, y) || bytes.Contains(y, x))
}

// firstText is the first text of a result, as it is escaped.
func (p *pass) firstText(r *transcript.Result) []byte {
	for _, t := range p.ix.Texts[r.Texts.Lo:r.Texts.Hi] {
		return bytes.Trim(t.Of(p.ix.Body), `"`)
	}
	return bytes.Trim(r.Content.Of(p.ix.Body), `"`)
}
