package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Score says how often the filter coref cut what the recorded conversation used later, and how much it cut.
//
// At a held-out point the transcript is cut before a turn of the model. The filter sees what comes before; what comes after
// is the future. A cut is a false drop if the future holds an assistant turn that uses, in its text or in the arguments of a
// call, an identifier that the result had introduced, wherever else it stands: exact matches by the filter's own rule, so a
// value that was reworded is not seen. A cut is missed if such an identifier stood nowhere else in what was left when it
// was first used.
//
// Points holds the filter's defaults at each point alone. Grid holds all points together, first for the defaults and then
// with one key changed at a time. A result counts at every point at which it would be cut. Cold holds what the engine
// really cuts at cold moments, under each policy.
type Score struct {
	Sessions int         `json:"sessions"`
	Points   []ScoreRow  `json:"points"`
	Grid     []ScoreRow  `json:"grid"`
	Cold     []ColdScore `json:"cold"`
}

// ScoreRow is one setting, with what it cuts under one verdict.
type ScoreRow struct {
	Point   int    `json:"point,omitempty"` // percent of the turns that lie before the point; 0: all points
	Key     string `json:"key,omitempty"`   // the key that is changed, empty for the defaults
	Value   int    `json:"value,omitempty"`
	Verdict string `json:"verdict"`
	Tally
}

// Verdicts that stand for more than one.
const (
	Everything = "everything" // results of min_tokens or more that the filter may touch: the rate that no choice at all has
	Both       = "both"       // unreferenced and closed
)

// Tally counts results and their estimated tokens.
type Tally struct {
	Moments         int `json:"moments"`        // points, or cold moments
	RequestTokens   int `json:"request_tokens"` // of the bodies at these
	Candidates      int `json:"candidates"`     // results that could have been cut
	Used            int `json:"used"`           // of these, used later
	Cut             int `json:"cut"`
	Tokens          int `json:"tokens"`
	FalseDrops      int `json:"false_drops"`
	FalseDropTokens int `json:"false_drop_tokens"`
	Missed          int `json:"missed"`
	// FirstUse counts the false drops by the turns from the cut to the first use: FirstUseTurns names the classes.
	FirstUse [len(firstUse)]int `json:"first_use"`

	FalseDropRate float64 `json:"false_drop_rate"` // of the results that were cut
	MissedRate    float64 `json:"missed_rate"`     // of the same
	Yield         float64 `json:"yield"`           // tokens cut, as a share of the requests'
	UsedKept      float64 `json:"used_kept"`       // share of the candidates used later that were not cut
}

// firstUse are the classes of Tally.FirstUse by their largest number of turns; the last is open.
var firstUse = [...]int{1, 5, 10, 25, 50, 1 << 30}

// FirstUseTurns names the classes of Tally.FirstUse.
func FirstUseTurns() [len(firstUse)]string {
	return [...]string{"1", "2–5", "6–10", "11–25", "26–50", "51+"}
}

// moment books one point with the tokens of its body.
func (t *Tally) moment(tokens int) {
	t.Moments++
	t.RequestTokens += tokens
}

// candidate books a result that could be cut.
func (t *Tally) candidate(used bool) {
	t.Candidates++
	if used {
		t.Used++
	}
}

// cut books a cut result. It is first used after so many turns, 0 for never.
func (t *Tally) cut(tokens, turns int, missed bool) {
	t.Cut++
	t.Tokens += tokens
	if missed {
		t.Missed++
	}
	if turns > 0 {
		t.FalseDrops++
		t.FalseDropTokens += tokens
		t.FirstUse[slices.IndexFunc(firstUse[:], func(most int) bool { return turns <= most })]++
	}
}

func (t *Tally) join(o *Tally) {
	t.Moments += o.Moments
	t.RequestTokens += o.RequestTokens
	t.Candidates += o.Candidates
	t.Used += o.Used
	t.Cut += o.Cut
	t.Tokens += o.Tokens
	t.FalseDrops += o.FalseDrops
	t.FalseDropTokens += o.FalseDropTokens
	t.Missed += o.Missed
	for i, n := range o.FirstUse {
		t.FirstUse[i] += n
	}
	t.rates()
}

// rates fills in what is worked out from the counts.
func (t *Tally) rates() {
	t.FalseDropRate, t.MissedRate = share(t.FalseDrops, t.Cut), share(t.Missed, t.Cut)
	t.Yield, t.UsedKept = share(t.Tokens, t.RequestTokens), share(t.Used-t.FalseDrops, t.Used)
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// ScoreSession scores one session: at held-out points, and at the cold moments of each policy. The recording is changed: see
// Calibration. No bodies are written.
func ScoreSession(ctx context.Context, rec *Recording, o Options) (*Score, error) {
	cal := calibrate(rec)
	books := rec.concordances()
	s := &Score{Sessions: 1, Cold: []ColdScore{}}
	for _, name := range rec.lineages() {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("score %s: %w", rec.Name, err)
		}
		if books[name] == nil {
			continue
		}
		one, err := heldOut(books[name])
		if err != nil {
			return nil, fmt.Errorf("score %s: %w", rec.Name, err)
		}
		s.Points, s.Grid = joinRows(s.Points, one.Points), joinRows(s.Grid, one.Grid)
	}
	for i := range o.Policies {
		c, err := scoreCold(ctx, rec, books, &o.Policies[i], o.Provider, cal.CharsPerToken)
		if err != nil {
			return nil, fmt.Errorf("score %s: %w", rec.Name, err)
		}
		s.Cold = append(s.Cold, *c)
	}
	return s, nil
}

// SumScores adds up the scores of one session or more under the same policies.
func SumScores(scores []*Score) *Score {
	t := &Score{Cold: make([]ColdScore, len(scores[0].Cold))}
	for _, s := range scores {
		t.Sessions += s.Sessions
		t.Points, t.Grid = joinRows(t.Points, s.Points), joinRows(t.Grid, s.Grid)
		for i := range s.Cold {
			t.Cold[i].join(&s.Cold[i])
		}
	}
	return t
}

func joinRows(to, from []ScoreRow) []ScoreRow {
	if to == nil {
		return slices.Clone(from)
	}
	for i := range from {
		to[i].join(&from[i].Tally)
	}
	return to
}

// lineages lists the conversations of a recording in the order of their first requests.
func (rec *Recording) lineages() (names []string) {
	for i := range rec.Requests {
		if name := rec.Requests[i].Lineage; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// concordances reads each conversation to its end: a session with the last answer, a capture as its longest body has it. One
// that cannot be read is left out.
func (rec *Recording) concordances() map[string]*concordance {
	bodies := map[string][]byte{}
	formats := map[string]transcript.Format{}
	for i := range rec.Requests {
		r := &rec.Requests[i]
		formats[r.Lineage] = r.wire.Format
		if r.from != nil {
			bodies[r.Lineage] = r.from.body(len(r.from.Messages))
			break
		}
		if len(r.raw) > len(bodies[r.Lineage]) && !r.counts() {
			bodies[r.Lineage] = r.raw
		}
	}
	books := map[string]*concordance{}
	for name, body := range bodies {
		if l, err := newConcordance(body, formats[name]); err == nil {
			books[name] = l
		}
	}
	return books
}

// until is the conversation's body as it was when it had so many messages.
func (l *concordance) until(messages int32) []byte {
	body, list := l.ix.Body, l.ix.Messages
	return slices.Concat(body[:list[messages-1].Raw.Hi], body[list[len(list)-1].Raw.Hi:])
}

// tokensOf estimates a body.
func tokensOf(body []byte) int { return transcript.Est(string(body)) }
