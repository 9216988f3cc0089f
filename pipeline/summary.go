package pipeline

import (
	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/state"
)

// Summaries prepares summaries of results apart from requests. It is safe for concurrent use, and waits for nothing but a
// mutex.
type Summaries interface {
	// Ready returns the summary of a result, if there is one.
	Ready(k SummaryKey) (text string, ok bool)
	// Takes reports whether an attempt to make one would be begun now: not where one is under way or came to nothing for good,
	// where there is no room, or where the summarizer has failed lately.
	Takes(k SummaryKey) bool
	// Begin begins an attempt, in the background, and reports whether it did, which may be another answer than that of Takes
	// before. text returns the result's text; it is called before Begin returns or not at all, and what is kept of it is copied.
	Begin(k SummaryKey, text func() string) bool
}

// SummaryKey names a summary: of one result, as the client sent it, in one session, by one summarizer.
type SummaryKey struct {
	Session state.SessionKey
	Block   state.Digest // of the result's block
	By      filters.Summarizer
}

// summaryAsk is what a filter asks for.
type summaryAsk struct {
	result int32
	by     filters.Summarizer
}

// summaryAnswer is what it was told, for as long as the request lasts.
type summaryAnswer struct {
	text     string
	gate     filters.Gate
	attempts int
}

// summaries is View.Summary. Where nothing would come of a summary, none is paid for: on bound branches, and where what is
// decided is only metered.
func (p *pass) summaries() func(result int32, by *filters.Summarizer, attempts int) (string, filters.Gate) {
	if p.e.summaries == nil || p.bound || p.shadow {
		return nil
	}
	return p.summary
}

// summary answers a filter, and notes what it wants.
func (p *pass) summary(result int32, by *filters.Summarizer, attempts int) (string, filters.Gate) {
	ask := summaryAsk{result, *by}
	a, ok := p.asked[ask]
	if !ok {
		if p.asked == nil {
			p.asked = map[summaryAsk]summaryAnswer{}
		}
		a = summaryAnswer{gate: filters.NoSummary, attempts: attempts}
		if text, ready := p.e.summaries.Ready(p.summaryKey(&ask)); ready {
			a.text, a.gate = text, ""
		} else if p.b.Ledger.Attempts() >= attempts {
			a.gate = filters.AttemptsSpent
		}
		p.asked[ask] = a
		p.askedFor = append(p.askedFor, ask)
	}
	return a.text, a.gate
}

func (p *pass) summaryKey(ask *summaryAsk) SummaryKey {
	return SummaryKey{Session: p.sess.key, Block: p.ix.Blocks[p.ix.Results[ask.result].Block].Hash, By: ask.by}
}

// countSummaries counts the attempts that this request begins: at summaries that filters want and it did not decide, when
// nothing can fail any more. A move of this request makes place for new attempts.
func (p *pass) countSummaries() {
	if len(p.askedFor) == 0 || len(p.sess.unsure) > 0 {
		return // what is unsure cannot be counted in the store
	}
	spent := 0
	if p.o.Move == nil {
		spent = p.b.Ledger.Attempts()
	}
	for i := range p.askedFor {
		ask := &p.askedFor[i]
		a := p.asked[*ask]
		if a.gate == "" || p.out.decided(ask.result) || spent+len(p.begun) >= a.attempts || !p.e.summaries.Takes(p.summaryKey(ask)) {
			continue
		}
		p.begun = append(p.begun, *ask)
	}
	p.b.Ledger.Summaries += len(p.begun)
}

// beginSummaries begins the attempts that were counted. The count is stored before, so that it holds over a crash and over
// replicas that are used in turn; where it could not be stored nothing is begun, and the attempts are spent.
func (p *pass) beginSummaries(stored bool) {
	if !stored {
		return
	}
	for i := range p.begun {
		ask := &p.begun[i]
		p.e.summaries.Begin(p.summaryKey(ask), func() string { return p.ix.ResultText(&p.ix.Results[ask.result]) })
	}
}
