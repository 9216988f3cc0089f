package replay

import (
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Move is one move and what came of it.
//
// The outcome counts what left the prompt with the move: in its own request and in every later one of the conversation that
// still reaches that place, those tokens would have been read from the cache where the request read beyond the place, and
// written to it where it did not. What the simulated cache still held behind the place when the move was made comes off
// that: it was written again instead of read.
type Move struct {
	N           int       `json:"n"` // request
	At          time.Time `json:"at"`
	FromMessage int32     `json:"from_message"`
	Kind        string    `json:"kind"`
	Tokens      int       `json:"tokens"` // that left the prompt with it, as the provider counts
	Lost        int       `json:"lost"`   // tokens that the cache still held behind it
	Calls       int       `json:"calls"`  // requests that the outcome counts
	Forecast    float64   `json:"forecast_usd"`
	Outcome     float64   `json:"outcome_usd"`
	Units       float64   `json:"outcome_units"`

	lineage string
	place   int // tokens of the prompt that stand before what changed
}

// ledger follows the moves of a session.
type ledger struct {
	all     []*Move
	removed map[string]int // by conversation: tokens that its last prompt was smaller by
}

// undone is what would have been forwarded without the decisions that the request made, so that it can be asked what the
// cache still held of that. Of a cut it is what was forwarded before.
func undone(body, after, before []byte, o *pipeline.Outcome) []byte {
	if slices.ContainsFunc(o.New, func(d pipeline.DecisionMade) bool { return d.Drop }) && before != nil {
		return before
	}
	in, err := transcript.Parse(body, o.Format)
	if err != nil {
		return after
	}
	defer in.Release()
	out, err := transcript.Parse(after, o.Format)
	if err != nil || len(in.Results) != len(out.Results) {
		return after
	}
	defer out.Release()
	made := map[string]bool{}
	for i := range o.New {
		made[o.New[i].Call] = !o.New[i].Hold
	}
	var edits []pipeline.Edit
	for i := range out.Results {
		if r := &out.Results[i]; made[out.CallID(r)] {
			edits = append(edits, pipeline.Edit{Span: r.Content, Text: in.Results[i].Content.Of(body)})
		}
	}
	return pipeline.Splice(after, edits)
}

// turn books one request and what it was billed. kept is what the cache held of the outbound without a move, forecast what
// the engine said of the move.
func (l *ledger) turn(n int, r *Request, o *pipeline.Outcome, after []byte, t *Turn, tariff tariff, kept int, forecast float64) {
	if l.removed == nil {
		l.removed = map[string]int{}
	}
	if t.Sent == nil || t.Paid == nil {
		return
	}
	read, write := tariff.tokens(t.Paid)
	usd := tariff.rates(t.Paid).Input / 1e6
	if o.Move != nil {
		m := &Move{
			N: n, At: r.At, FromMessage: o.Move.From, Kind: o.Move.Kind, Tokens: t.Removed - l.removed[r.Lineage],
			Lost: max(0, kept-t.Paid.Read), Forecast: forecast, lineage: r.Lineage,
		}
		m.place = int(shareBefore(after, o.Format, o.Move.From) * float64(t.Paid.Prompt()))
		m.Units = -float64(m.Lost) * (write - read)
		m.Outcome = m.Units * usd
		l.all = append(l.all, m)
	}
	l.removed[r.Lineage] = t.Removed
	for _, m := range l.all {
		if m.lineage != r.Lineage || t.Paid.Prompt() < m.place {
			continue
		}
		each := write
		if t.Paid.Read > m.place {
			each = read
		}
		m.Calls++
		m.Units += each * float64(m.Tokens)
		m.Outcome += each * float64(m.Tokens) * usd
	}
}

// shareBefore is the part of a body that stands before one of its messages, in the provider's order.
func shareBefore(body []byte, format transcript.Format, message int32) float64 {
	ix, err := transcript.Parse(body, format)
	if err != nil {
		return 0
	}
	defer ix.Release()
	first, last := &ix.Messages[0], &ix.Messages[len(ix.Messages)-1]
	size := len(body) - int(last.Raw.Hi-first.Raw.Lo) - len("[]")
	for i := range min(int(message), len(ix.Messages)) {
		size += ix.Messages[i].Raw.Len()
	}
	return float64(size) / float64(len(body))
}
