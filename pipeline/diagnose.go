package pipeline

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// A request of the Claude API may name the provider's answer to an earlier one in its member diagnostics. The provider compares
// the two and says where the prompt first parts from the earlier one. It knows only requests that had the member themselves, so
// a session asks in every request or in none, and with null where there is nothing to name (the provider's page on cache
// diagnostics). The member is no part of the prompt: it stands in no prefix, and its bytes are not in the chain.

// A member that asks, as it is put before the brace that closes a body.
const (
	askHead = `,"diagnostics":{"previous_message_id":`
	askTail = `}`
)

// maxMessageID bounds an id that is sent back. The provider's are 28 characters long.
const maxMessageID = 128

// askText is the member that names an answer. An id that is none, or that could be anything but a plain word, is not sent.
func askText(id string) string {
	if !isMessageID(id) {
		return askHead + "null" + askTail
	}
	return askHead + `"` + id + `"` + askTail
}

func isMessageID(id string) bool {
	return id != "" && len(id) <= maxMessageID && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// askSpan is the place before the brace that closes a body.
func askSpan(ix *transcript.Index) transcript.Span { return transcript.Span{Lo: ix.End, Hi: ix.End} }

// isAsk reports whether an edit adds the member diagnostics to a body that has none.
func isAsk(ix *transcript.Index, e *Edit) bool {
	text := string(e.Text)
	id := strings.TrimSuffix(strings.TrimPrefix(text, askHead+`"`), `"`+askTail)
	return !ix.Diagnostics && e.Span == askSpan(ix) && (text == askText("") || text == askText(id))
}

// ask is the member by which this request asks for a diagnosis, empty if it does not ask. Down the ladder nothing is asked.
func (p *pass) ask() string {
	if p.r.Config.Diagnostics <= 0 || p.b == nil || p.side != "" || p.shadow {
		return ""
	}
	switch p.gate {
	case "", filters.Retry, filters.NoPipeline, filters.Brake, filters.RawGuard:
	default:
		return ""
	}
	// Bedrock and Vertex, whose bodies name no model, do not know the member.
	if p.ix.Format != transcript.Anthropic || p.r.Model != "" || p.ix.Model == "" || p.ix.Diagnostics || !p.sampled() || !p.e.route(p.r.Route).mayAsk() {
		return ""
	}
	return askText(p.answer())
}

// sampled reports whether the session is one of those that ask.
func (p *pass) sampled() bool { return p.drawn("diagnostics", p.r.Config.Diagnostics) }

// answer is the provider's id of the answer that this request is compared with: the last one on the branch that it goes on or
// forks from, empty for none.
func (p *pass) answer() string {
	if p.m.branch == nil || p.rewritten() {
		return ""
	}
	return p.m.branch.Ledger.Message
}

// rewritten reports whether this request changes a result that was forwarded before. Such a difference is tidemark's own: the
// provider would take it for the client's, so nothing is compared across it.
func (p *pass) rewritten() bool {
	return slices.ContainsFunc(p.o.New, func(d DecisionMade) bool { return !d.Hold && d.Msg < p.fresh })
}

// answered notes on the branch which answer its next request names. An answer to a request that did not ask is unknown to the
// provider; one that comes after the branch has gone on may lie before a change of tidemark's own.
func (t *sent) answered(b *state.Branch, r *Response) {
	if !t.asked || !isMessageID(r.Message) {
		b.Ledger.Message = ""
		return
	}
	t.e.route(t.route).hear()
	if !t.at.Before(b.Last) {
		b.Ledger.Message = r.Message
	}
}

// refused takes note of a provider that refuses a request which asked. The status does not say what was refused: it is taken to
// be the question, as a wrong guess costs only diagnoses.
func (t *sent) refused(r *Response) {
	if t.asked && r.Status == http.StatusBadRequest {
		t.e.route(t.route).silence()
	}
}

// maxUnheard is how many requests of a route ask before an answer that can be named has been seen. Where no tap shows answers a
// refusal would not be seen either, and every request of a session could fail.
const maxUnheard = 16

// asks is what is known of a route's questions.
type asks struct {
	unheard int  // requests that asked before any answer was seen
	heard   bool // an answer was seen
	mute    bool // the provider refused a request that asked
}

// mayAsk reports whether one more request may ask.
func (r *routeState) mayAsk() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asks.mute || !r.asks.heard && r.asks.unheard >= maxUnheard {
		return false
	}
	r.asks.unheard++
	return true
}

// hear takes note of an answer to a request that asked.
func (r *routeState) hear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks.heard = true
}

// silence stops questions on the route.
func (r *routeState) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks.mute = true
}
