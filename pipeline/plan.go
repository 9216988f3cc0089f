package pipeline

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/state"
)

// wish is a proposal with the filter that made it.
type wish struct {
	filter string
	filters.Proposal
}

// drops reports whether a wish is a cut.
func (w wish) drops() bool { return w.Action == filters.Drop }

// propose asks every filter of the pipeline about every open result and keeps, for each result, the first proposal in the
// pipeline's order.
func (p *pass) propose() ([]wish, error) {
	p.wishedFor, p.grown = map[int32]int{}, map[string]*filterMemo{}
	v := p.view()
	open, closed := map[int32]bool{}, 0
	p.claimed, p.kept = map[int32]bool{}, nil
	for _, c := range v.Candidates {
		if c.Open {
			open[c.Result] = false
		} else {
			closed++
		}
	}
	var wishes []wish
	for _, f := range p.r.Config.Filters {
		if closed > 0 {
			p.count(f.Name(), filters.CachedPrefix, closed)
		}
		if len(open) == 0 && v.CutGate != "" {
			continue
		}
		said, cut := map[int32]bool{}, false
		for _, prop := range f.Propose(v) {
			if prop.Action == filters.Drop && prop.Result == filters.Transcript && prop.Cut != nil && v.CutGate == "" && !cut {
				cut = true
				wishes = append(wishes, wish{f.Name(), prop})
				continue
			}
			taken, ok := open[prop.Result]
			if !ok || said[prop.Result] || prop.Action == filters.Drop || prop.Action == filters.None && prop.Gate == "" {
				return nil, fall(filters.FilterError, fmt.Errorf("%s broke its contract on result %d", f.Name(), prop.Result))
			}
			said[prop.Result] = true
			if prop.Gate == filters.Held {
				p.claimed[prop.Result] = true
			}
			switch {
			case prop.Action == filters.None:
				p.keep(f.Name(), prop.Result, prop.Gate)
			case taken:
				p.keep(f.Name(), prop.Result, filters.Outranked)
			case p.spared(prop.Result) != "":
				p.keep(f.Name(), prop.Result, p.spared(prop.Result))
			default:
				open[prop.Result] = true
				if prop.Lesser != "" {
					p.count(f.Name(), prop.Lesser, 1)
				}
				wishes = append(wishes, wish{f.Name(), prop})
				if v.Size != nil {
					p.wished(&prop)
				}
			}
		}
		if len(said) != len(open) {
			return nil, fall(filters.FilterError, fmt.Errorf("%s was silent on %d results", f.Name(), len(open)-len(said)))
		}
	}
	p.keepGrown()
	slices.SortFunc(wishes, func(a, b wish) int { return int(a.Result - b.Result) })
	return wishes, nil
}

// spared is why no filter replaces a result, whatever it proposes: it was given back, or is a marker.
func (p *pass) spared(result int32) filters.Gate {
	r := &p.ix.Results[result]
	switch {
	case r.Call >= 0 && p.ix.Restores(r.Call):
		return filters.KeptVerbatim
	case filters.IsMarker(p.ix, r):
		return filters.AlreadyMarked
	}
	return ""
}

func (p *pass) count(filter string, gate filters.Gate, n int) {
	p.o.Gates[FilterGate{filter, gate}] += n
}

// plan admits proposals: what is held or was never forwarded at once, the rest as one move, which is cold because it lies
// beyond everything that the provider may hold.
func (p *pass) plan(wishes []wish) {
	p.left = p.out.size()
	held := p.k
	p.rewrite(wishes)
	p.slight = p.slights(wishes)
	for i := range wishes { // a cut comes first
		w := &wishes[i]
		if gate := p.admit(w); gate != "" {
			p.keep(w.filter, w.Result, gate)
		}
	}
	p.unclaimed()
	p.settleMove(held)
	if p.newCut != nil {
		p.out = p.layout.replay(p.b, p.m.shared)
	}
	if len(p.news) == 0 {
		return
	}
	for i := len(p.b.InForce) - len(p.news); i < len(p.b.InForce); i++ { // the slice may have moved while it grew
		d := &p.b.InForce[i]
		if r, ok := p.layout.find(d.Ref, int32(len(p.chain))); ok && !p.out.gone(r) { // as the next request will, which shares all of it
			p.out.set(r, d)
		}
	}
	p.out.refresh()
}

// maxHeld is how many turns a read may be held whatever filters say, so that a route whose config stays broken does not pay
// for a hold for ever.
const maxHeld = 64

// maxHolds bounds the holds of one branch; no agent reads as many files at once.
const maxHolds = 256

// unclaimed releases what no filter wants held any more: the filter that held it was disabled, changed or taken out.
func (p *pass) unclaimed() {
	for r := range maps.Clone(p.held) {
		if !p.claimed[r] && p.ix.Results[r].Msg < p.fresh {
			p.release(r)
		}
	}
}

// overdue releases what was held for longer than any config allows.
func (p *pass) overdue() {
	for r := range maps.Clone(p.held) {
		if p.ix.LastTurn()-p.ix.Results[r].Turn > maxHeld {
			p.release(r)
		}
	}
}

// admit carries out one proposal, or says why not.
func (p *pass) admit(w *wish) filters.Gate {
	_, held := p.held[w.Result]
	switch {
	case p.bound:
		return filters.PrefixBound
	case w.Action == filters.Drop:
		return p.admitCut(w)
	case p.newCut != nil && p.newGone[p.ix.Results[w.Result].Msg]:
		return filters.InCut
	case w.Action == filters.Hold:
		return p.hold(w)
	case w.Mode == filters.Meter:
		return filters.MeterOnly
	case !held && p.zone(w.Result) == filters.Covered:
		if gate := p.deep[w.Result]; gate != "" {
			return gate
		}
		if w.Policy.Warm && p.rewriteGate != "" || p.crowded() {
			return cmp.Or(p.rewriteGate, filters.WindowShort)
		}
		return filters.CachedPrefix
	case !held && p.ix.Results[w.Result].Msg < p.fresh:
		if gate := p.movesWith(w); gate != "" {
			return gate
		}
	}
	d, original, gate := p.decide(w)
	saves := 0
	if gate == "" {
		if saves = p.ix.Results[w.Result].Content.Len() - len(d.Content); p.small(p.left - saves) {
			gate = filters.SmallPrompt
		}
	}
	if gate != "" {
		if held {
			p.release(w.Result)
		}
		return gate
	}
	made := DecisionMade{
		Filter: w.filter, Verdict: w.Verdict, Tool: strings.Clone(p.toolName(w.Result)), ID: d.ID, Call: d.Ref.Call, Msg: d.Msg,
		Matured: held, Tokens: d.Tokens, MarkerTokens: d.MarkerTokens, Calibrated: p.removedTokens(saves),
	}
	if held {
		p.release(w.Result)
	} else if d.Msg < p.fresh {
		p.moved(d.Msg, d.Tokens-d.MarkerTokens, w.filter, saves)
	}
	p.b.InForce = append(p.b.InForce, *d)
	p.news = append(p.news, d)
	p.left -= saves
	if original != nil {
		p.saved = append(p.saved, *original)
		made.SHA256 = hex.EncodeToString(original.SHA256[:])
	}
	p.o.New = append(p.o.New, made)
	p.must = true
	return ""
}

// minLeft is the size of the smallest outbound that decisions may leave, in bytes. Providers do not cache prompts under
// 512 to 4096 tokens, by model; a prompt that falls under that is billed whole on every turn. Six bytes a token leave room.
const minLeft = 4096 * 6

// small reports whether so many bytes may be a prompt that the provider does not cache. Where it has counted this conversation its
// own count decides too: JSON that is full of escapes has more bytes than tokens.
func (p *pass) small(left int) bool {
	return left < minLeft || p.b.Ledger.Ratio > 0 && tokens(p.b, float64(left)) < smallest*float64(p.price.Minimum)
}

// smallest is how much larger than the provider's minimum a prompt must stay, as what is counted differs from one part to another.
const smallest = 1.25

// size is the size of the outbound with the decisions in force.
func (o *outbound) size() int {
	n := len(o.ix.Body)
	for _, e := range o.span.edits(o.ix) {
		n += len(e.Text) - e.Span.Len()
	}
	for i, d := range o.over {
		if d != nil {
			n += len(d.Content) - o.ix.Results[i].Content.Len()
		}
	}
	return n
}

func (p *pass) toolName(result int32) string {
	return p.ix.ToolName(&p.ix.Calls[p.ix.Results[result].Call])
}

// ref names a result.
func (p *pass) ref(result int32) state.ResultRef {
	r := &p.ix.Results[result]
	return state.ResultRef{Call: strings.Clone(p.ix.CallID(r)), Block: p.ix.Blocks[r.Block].Hash}
}

// hold keeps a result that was never forwarded out of the cache.
func (p *pass) hold(w *wish) filters.Gate {
	r := &p.ix.Results[w.Result]
	if r.Msg < p.fresh || len(p.b.Held) >= maxHolds {
		return filters.HoldDeclined
	}
	if gate := p.holdAt(w.Result); gate != "" {
		return gate
	}
	p.held[w.Result] = int32(len(p.b.Held))
	h := state.Hold{Ref: p.ref(w.Result), Turn: r.Turn}
	p.b.Held = append(p.b.Held, h)
	p.heldNow = append(p.heldNow, h.Ref)
	p.o.New = append(p.o.New, DecisionMade{
		Filter: w.filter, Verdict: w.Verdict, Tool: strings.Clone(p.toolName(w.Result)), Call: h.Ref.Call, Msg: r.Msg, Hold: true,
		Tokens: p.ix.ResultTokens(w.Result),
	})
	p.must = true
	return ""
}

// release ends the hold of a result.
func (p *pass) release(result int32) {
	i := p.held[result]
	p.b.Held = slices.Delete(slices.Clone(p.b.Held), int(i), int(i)+1)
	for r, n := range p.held {
		switch {
		case n == i:
			delete(p.held, r)
		case n > i:
			p.held[r] = n - 1
		}
	}
	p.must = true
}

// decide makes the decision that puts a marker in a result's place, and the original that it stands for.
func (p *pass) decide(w *wish) (*state.Decision, *state.Original, filters.Gate) {
	r := &p.ix.Results[w.Result]
	content := r.Content.Of(p.ix.Body)
	digest := sha256.Sum256(content)
	ref := p.ref(w.Result)
	var back filters.Back
	if p.keeps(w) {
		back = filters.Back{ID: p.e.originalID(p.sess.key, ref.Call, digest), Tool: p.restoreTool()}
	}
	n, gate := w.Replacement(p.ix, back)
	if gate != "" {
		return nil, nil, gate
	}
	d := &state.Decision{
		Ref: ref, Msg: r.Msg, Content: n.Content, Filter: w.filter, Verdict: w.Verdict, ID: back.ID,
		Tokens: n.Tokens, MarkerTokens: n.MarkerTokens, At: p.r.Now,
	}
	d.Out = p.ix.Replaced(p.e.hasher, r, d.Content)
	if back.ID == "" {
		return d, nil, ""
	}
	return d, &state.Original{
		ID: back.ID, Session: p.sess.key, Call: ref.Call, Tool: strings.Clone(p.toolName(w.Result)),
		Content: slices.Clone(content), Size: len(content), SHA256: digest, At: p.r.Now, About: filters.About(p.ix, r), Filter: w.filter,
	}, ""
}

// restoreTool is the tool by which the model of this request gets originals back, empty without one.
func (p *pass) restoreTool() string {
	if p.out.tool != "" {
		return part.Name
	}
	if p.tool == nil {
		name := p.ix.RestoreTool()
		p.tool = &name
	}
	return *p.tool
}

// keeps reports whether the original of what a wish leaves out is kept, so that it can be restored.
func (p *pass) keeps(w *wish) bool { return w.Mode == filters.Full && !p.anonymous }

// originalID is the capability that names an original: 24 hex digits that nobody without the secret can guess.
func (e *Engine) originalID(key state.SessionKey, call string, digest [32]byte) string {
	return hex.EncodeToString(sum(e.secret, "original", key.Tenant[:], key.Session[:], []byte(call), digest[:])[:12])
}
