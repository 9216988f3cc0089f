package pipeline

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Inline restore: a conversation may be offered one more tool, from its first request on, by which the model gets back what was
// left out. The client does not know the tool and answers a call of it with an error of its own. That error is fresh: nobody has
// seen it, so the next request carries the original in its place.

// Restore is the filter by whose name givings back are known in decisions and metrics. It is none of the pipeline.
const Restore = "restore"

// Bounds of what is given back within a request.
const (
	maxInline  = 100_000 // bytes of all texts together, about 25,000 tokens; fewer where fewer are asked for
	leastRoom  = 2_000   // of these bytes must be left for one more
	inlineWork = 1 << 21 // of a search, see part.Ask: it takes a part of the deadline even with the worst of patterns
)

// Results of asking for an original.
const (
	RestoreOK        = "ok"
	RestoreMiss      = "miss"      // nothing is kept under the id
	RestoreSealed    = "sealed"    // an operator has stopped it
	RestoreWithdrawn = "withdrawn" // its content is gone for good
	RestoreRefused   = "refused"   // what was asked for cannot be read, or no part of it can be given
)

// Restored is an original that was asked for inline.
type Restored struct {
	Call, ID string // ID is empty where none could be read
	Filter   string // whose decision had left it out
	Result   string // RestoreOK or why not
	Bytes    int    // of the text that was given back
	Tokens   int    // Est of it
}

// maxTools is how many tools OpenAI and Azure take in a request; with one more they refuse it.
const maxTools = 128

// offer adds the tool to a branch that begins with this request. Where the provider may hold the same tools without it, for
// another conversation of the session, that would be written anew: then it is not offered. Where it may hold them with it, it is
// offered to a conversation that is under way, too: one whose beginning the client has written anew.
func (p *pass) offer() {
	holds := func(with bool) bool {
		return slices.ContainsFunc(p.sess.branches, func(b *state.Branch) bool { return b.Key == p.key && (b.Tool != "") == with && b.Alive(p.r.Now) })
	}
	switch {
	case !p.r.Config.Inline || p.shadow || p.anonymous || p.bound || p.gate != "":
		return
	case p.m.kind != KindNew || p.ix.RestoreTool() != "" || p.ix.Tools() >= maxTools:
		return
	case holds(false) || p.last >= 0 && !holds(true) || p.ix.LastTool() < 0 || p.ix.ForcedTool():
		return
	}
	p.b.Tool = string(p.ix.Format.Tool(part.Name, part.Description, part.Schema))
	p.must = true
}

// offering is the layout of the body with a tool added. Its cells are the same: the tool counts as a part of what stands before all.
func (l *layout) offering(tool string) *layout {
	if tool == "" || l.ix.LastTool() < 0 {
		return l
	}
	if l.offered == nil || l.offered.tool != tool {
		c := *l
		c.tool, c.cuts = tool, nil
		c.base = c.prefixes(nil, 0, nil)
		l.offered = &c
	}
	return l.offered
}

// toolEdits is the edit that adds the tool.
func (l *layout) toolEdits() []Edit {
	if l.tool == "" {
		return nil
	}
	at, ok := l.ix.ToolsEnd()
	if !ok {
		return nil
	}
	return []Edit{{Span: point(at), Text: append([]byte{','}, l.tool...)}}
}

// isTool reports whether an edit adds a tool that gives originals back.
func isTool(ix *transcript.Index, e *Edit) bool {
	at, ok := ix.ToolsEnd()
	return ok && e.Span == point(at) && len(e.Text) > 2 && e.Text[0] == ',' && transcript.IsToolOf(ix.Format, e.Text[1:], part.Name)
}

// giveBack puts originals in the place of what the client said of calls to a tool that it does not know.
func (p *pass) giveBack(ctx context.Context) {
	if p.out.tool == "" || p.side != "" || !p.mayGiveBack() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience(ctx)) // what takes longer must not cost the replay
	defer cancel()
	room := maxInline
	for i := range p.ix.Results {
		r := &p.ix.Results[i]
		if r.Msg < p.fresh || r.Call < 0 || r.Ambiguous || r.NestedMarker || p.out.decided(int32(i)) || p.out.gone(int32(i)) ||
			p.ix.ToolName(&p.ix.Calls[r.Call]) != part.Name || r.Form != transcript.StringForm && r.Form != transcript.TextForm {
			continue
		}
		content, done, err := p.original(ctx, r, room)
		if err != nil { // what the client said goes on; the model may ask again
			p.e.log.WarnContext(ctx, "original not readable", "error", err, "request", p.r.ID)
			continue
		}
		d := &state.Decision{
			Ref: p.ref(int32(i)), Msg: r.Msg, Content: content, Filter: Restore, Verdict: done.Result,
			Tokens: p.ix.ResultTokens(int32(i)), MarkerTokens: done.Tokens, At: p.r.Now,
		}
		d.Out = p.ix.Replaced(p.e.hasher, r, d.Content)
		p.b.InForce = append(p.b.InForce, *d)
		p.news = append(p.news, d)
		p.out.set(int32(i), d)
		room -= done.Bytes
		done.Call = d.Ref.Call
		p.o.Restored = append(p.o.Restored, done)
		p.must = true
	}
	if len(p.news) > 0 {
		p.out.refresh()
	}
}

// mayGiveBack reports whether an original may take the place of an error. What stops filters does not: they leave something out, this
// gives it back. What narrows a request to a replay does, as does all that goes wrong.
func (p *pass) mayGiveBack() bool {
	switch p.gate {
	case "", filters.NoPipeline, filters.BadConfig, filters.Brake, filters.RawGuard, filters.Rollout, filters.Holdout, filters.StoreFull, filters.FilterError:
		return !p.strict
	default:
		return false
	}
}

// original is what stands in the place of a result whose call asks for an original.
func (p *pass) original(ctx context.Context, r *transcript.Result, room int) (content []byte, done Restored, err error) {
	say := func(result, text string) ([]byte, Restored, error) {
		done.Result, done.Tokens = result, transcript.Est(text)
		return p.ix.Replacement(r, text), done, nil
	}
	ask, err := part.ParseJSON([]byte(p.ix.InputText(&p.ix.Calls[r.Call])))
	if err != nil {
		return say(RestoreRefused, err.Error())
	}
	if done.ID = ask.ID; room < leastRoom {
		return say(RestoreRefused, tooMuch)
	}
	o, err := p.fetch(ctx, ask.ID)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return say(RestoreMiss, part.Missing)
	case err != nil:
		return nil, done, err
	case o.Fate == state.Sealed:
		return say(RestoreSealed, part.Sealed)
	case o.Fate == state.Withdrawn:
		return say(RestoreWithdrawn, part.Withdrawn)
	}
	done.Filter = o.Filter
	text := part.Text(o.Content)
	ask.MaxBytes, ask.Work = min(cmp.Or(ask.MaxBytes, room), room), inlineWork
	given, err := part.Of(text, ask)
	if err != nil {
		return say(RestoreRefused, err.Error())
	}
	done.Result, done.Bytes, done.Tokens = RestoreOK, len(given), transcript.Est(given)
	if given == text && p.ix.IsReplacement(r, o.Content) { // every byte of it, escapes too
		return slices.Clone(o.Content), done, nil
	}
	return p.ix.Replacement(r, given), done, nil
}

// tooMuch is said where the texts that were asked for in one turn are more than one request gives back.
const tooMuch = "More was asked for in one turn than is given back at once. Ask for this one again."

// fetch reads an original of the tenant. Another tenant's is not even read: it is not there. A store that is slow is not waited for
// beyond ctx.
func (p *pass) fetch(ctx context.Context, id string) (*state.Original, error) {
	type read struct {
		o   *state.Original
		err error
	}
	done := make(chan read, 1)
	tenant := p.sess.key.Tenant
	go func() {
		owner, err := p.e.store.Owner(ctx, id)
		if err == nil && subtle.ConstantTimeCompare(owner.Tenant[:], tenant[:]) != 1 {
			err = state.ErrNotFound
		}
		if err != nil {
			done <- read{err: err}
			return
		}
		o, err := p.e.store.Original(ctx, id)
		if err == nil && o.Session.Tenant != tenant {
			err = state.ErrNotFound
		}
		done <- read{o, err}
	}()
	select {
	case r := <-done:
		return r.o, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
