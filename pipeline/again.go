package pipeline

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Reused is content that had been left out and that the model asked for again.
type Reused struct {
	Call   string // that brings it back
	Filter string // that had left it out
	Kind   ReuseKind
	Tokens int   // Est of what came back
	Turns  int32 // between the result that was left out, or the cut's newest, and this one

	turn   int32 // that asked for it
	inline bool  // it stands in the outbound in the place of what the client said
}

// ReuseKind says how content came back.
type ReuseKind string

// Kinds of reuse.
const (
	Reread     ReuseKind = "reread"   // a file, or a part of it, was read again, and nothing in it had changed
	Rerun      ReuseKind = "rerun"    // the same call was made again, and said the same
	RestoredIt ReuseKind = "restored" // the original was asked for
)

// againBytes is how much a request reads to find what is needed again. What would take more is not looked for: a client may
// repeat itself without end.
const againBytes = 4 << 20

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
			all = append(all, Reused{Call: done.Call, Filter: done.Filter, Kind: RestoredIt, Tokens: done.Tokens, turn: p.ix.LastTurn(), inline: true})
		}
	}
	gone, left := p.goneBy(), againBytes
	for i := range p.ix.Results {
		r := &p.ix.Results[i]
		if len(gone) == 0 || r.Msg < p.fresh || r.Call < 0 || p.out.decided(int32(i)) {
			continue
		}
		if a := p.again(int32(i), gone, &left); a.Kind != "" {
			a.Call, a.Tokens, a.turn = strings.Clone(p.ix.CallID(r)), p.ix.ResultTokens(int32(i)), r.Turn
			all = append(all, a)
		}
	}
	return all
}

// goneBy lists the results that earlier requests left out. What this one leaves out the model had before it when it asked.
func (p *pass) goneBy() (gone []int32) {
	made := p.made()
	for i := range p.ix.Results {
		r := &p.ix.Results[i]
		switch {
		case r.Msg >= p.fresh || r.Call < 0:
		case p.out.gone(int32(i)):
			if p.newCut == nil || !p.newGone[r.Msg] {
				gone = append(gone, int32(i))
			}
		case p.out.decided(int32(i)) && p.out.over[i].Filter != Restore && !made[p.out.over[i].Ref]:
			gone = append(gone, int32(i))
		}
	}
	return gone
}

// again says of which result that was left out this one is a return. left is how much may still be read.
func (p *pass) again(result int32, gone []int32, left *int) (a Reused) {
	ix := p.ix
	r := &ix.Results[result]
	restores, facts := ix.Restores(r.Call), ix.CallFacts(r.Call)
	input, content := ix.Calls[r.Call].Input.Of(ix.Body), r.Content.Of(ix.Body)
	for i := len(gone) - 1; i >= 0 && *left > 0; i-- { // the newest first: it is what the model saw last
		old := &ix.Results[gone[i]]
		filter, ids := p.leftOutBy(gone[i])
		switch was := &ix.Calls[old.Call]; {
		case restores:
			*left -= len(input)
			if slices.ContainsFunc(ids, func(id string) bool { return bytes.Contains(input, []byte(id)) }) {
				a.Kind = RestoredIt
			}
		case facts.Role == transcript.Read:
			seen := ix.CallFacts(old.Call)
			if facts.Path == "" || seen.Role != transcript.Read || seen.Path != facts.Path || seen.Place != facts.Place {
				break
			}
			if *left -= len(content) + old.Content.Len(); p.sameText(r, old) {
				a.Kind = Reread
			}
		case len(content) == old.Content.Len() && len(input) == was.Input.Len():
			*left -= len(content) + len(input)
			if ix.ToolName(&ix.Calls[r.Call]) == ix.ToolName(was) && bytes.Equal(input, was.Input.Of(ix.Body)) && bytes.Equal(content, old.Content.Of(ix.Body)) {
				a.Kind = Rerun
			}
		}
		if a.Kind != "" {
			a.Filter, a.Turns = filter, r.Turn-old.Turn
			return a
		}
	}
	return a
}

// leftOutBy is whose decision left a result out, and the ids under which its original is kept: of a cut all of its spans.
func (p *pass) leftOutBy(result int32) (filter string, ids []string) {
	if !p.out.gone(result) {
		d := p.out.over[result]
		if d.ID != "" {
			ids = []string{d.ID}
		}
		return d.Filter, ids
	}
	cut := p.out.span.cut
	if p.newCut == nil {
		return cut.Filter, cut.IDs
	}
	if was := p.m.cut(); was != nil { // what this request cuts nobody can have asked for
		ids = was.IDs
	}
	return cut.Filter, ids
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
