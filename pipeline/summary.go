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
	// Begin begins an attempt to make one, in the background, and reports whether it did: not where one is under way or came to
	// nothing for good, where there is no room, or where the summarizer has failed lately. text returns the result's text; it is
	// called before Begin returns or not at all, and what is kept of it is copied.
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

// beginSummaries hands over what filters want and this request did not decide, when nothing can fail any more. A move of this
// request makes place for new attempts.
func (p *pass) beginSummaries() {
	spent := 0
	if p.o.Move == nil && len(p.askedFor) > 0 {
		spent = p.b.Ledger.Attempts()
	}
	for i := range p.askedFor {
		ask := &p.askedFor[i]
		a := p.asked[*ask]
		if a.gate == "" || p.out.decided(ask.result) || spent+p.begun >= a.attempts {
			continue
		}
		if p.e.summaries.Begin(p.summaryKey(ask), func() string { return p.ix.ResultText(&p.ix.Results[ask.result]) }) {
			p.begun++
		}
	}
	if p.begun > 0 {
		p.b.Ledger.Summaries += p.begun
	}
}
