package replay

import (
	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// heldOutPoints are the held-out points: percent of the conversation's turns that lie before them.
var heldOutPoints = [...]int{20, 40, 60, 80}

// setting is the filter under one config, with both verdicts cut so that both can be counted.
type setting struct {
	key    string
	value  int
	config coref.Config
	filter filters.Filter
}

// grid lists the defaults and, one key at a time, the values around them.
func grid() ([]setting, error) {
	keys := []struct {
		name   string
		values []int
		set    func(c *coref.Config, v int)
	}{
		{"", []int{0}, func(*coref.Config, int) {}},
		{"min_later_turns", []int{0, 4, 8, 12, 20, 40, 80}, func(c *coref.Config, v int) { c.MinLaterTurns = v }},
		{"min_tokens", []int{100, 300, 1000, 2000, 4000}, func(c *coref.Config, v int) { c.MinTokens = v }},
		{"closed_dist", []int{6, 12, 25, 50, 100}, func(c *coref.Config, v int) { c.ClosedDist = v }},
		{"open_reps", []int{2, 3, 4, 6}, func(c *coref.Config, v int) { c.OpenReps = v }},
	}
	var all []setting
	for _, k := range keys {
		for _, v := range k.values {
			s := setting{key: k.name, value: v, config: coref.Default()}
			s.config.CutUnreferenced, s.config.CutClosed = true, true
			k.set(&s.config, v)
			f, err := coref.New(s.config)
			if err != nil {
				return nil, err
			}
			s.filter = f
			all = append(all, s)
		}
	}
	return all, nil
}

// heldOut scores one conversation.
func heldOut(l *concordance) (*Score, error) {
	settings, err := grid()
	if err != nil {
		return nil, err
	}
	var kept filters.Memo
	memo := func(_ string, grow func(filters.Memo) filters.Memo) filters.Memo {
		kept = grow(kept)
		return kept
	}
	s := &Score{}
	starts := l.starts()
	for _, percent := range heldOutPoints {
		k := len(starts) * percent / 100
		if k == 0 { // nothing was said by then
			s.Points = append(s.Points, blank(&settings[0], percent)...)
			continue
		}
		ix, err := transcript.Parse(l.until(starts[k]), l.ix.Format)
		if err != nil {
			return nil, err
		}
		p := point{concordance: l, at: l.at(starts[k]), tokens: tokensOf(ix.Body), seen: ix, uses: map[int32]int{}}
		var all []ScoreRow
		for i := range settings {
			rows := p.score(&settings[i], memo)
			if i == 0 {
				for _, r := range rows {
					r.Point = percent
					s.Points = append(s.Points, r)
				}
			}
			all = append(all, rows...)
		}
		s.Grid = joinRows(s.Grid, all)
		ix.Release()
	}
	if s.Grid == nil {
		for i := range settings {
			s.Grid = append(s.Grid, blank(&settings[i], 0)...)
		}
	}
	return s, nil
}

// starts lists the first message of every turn of the model.
func (l *concordance) starts() (all []int32) {
	last := int32(none)
	for i := range l.ix.Messages {
		if m := &l.ix.Messages[i]; m.Role == transcript.Assistant && m.Turn != last {
			all, last = append(all, int32(i)), m.Turn
		}
	}
	return all
}

// verdictsOf are the rows of a setting.
var verdictsOf = [...]string{Everything, coref.Unreferenced, coref.Closed, Both}

func blank(s *setting, percent int) (rows []ScoreRow) {
	for _, v := range verdictsOf {
		rows = append(rows, ScoreRow{Point: percent, Key: s.key, Value: s.value, Verdict: v})
	}
	return rows
}

// point is one held-out point of a conversation.
type point struct {
	*concordance
	at     cutAt
	tokens int
	seen   *transcript.Index // the transcript up to the point
	uses   map[int32]int     // by result: turns to the first use
}

// score counts what a setting cuts here.
func (p *point) score(s *setting, memo func(string, func(filters.Memo) filters.Memo) filters.Memo) []ScoreRow {
	rows := blank(s, 0)
	sets := make([]map[int32]bool, len(rows)) // of the results that each row cuts
	for i := range sets {
		sets[i] = map[int32]bool{}
	}
	v := &filters.View{Index: p.seen, Turn: p.seen.LastTurn(), Memo: memo}
	for r := range p.at.results {
		if s.mayCut(p.seen, r) {
			sets[0][r] = true
			v.Candidates = append(v.Candidates, filters.Candidate{Result: r, Zone: filters.Covered, Open: true})
		}
	}
	for _, d := range s.filter.Propose(v) {
		if d.Action != filters.Replace {
			continue
		}
		for i, verdict := range verdictsOf {
			if verdict == d.Verdict || verdict == Both {
				sets[i][d.Result] = true
			}
		}
	}
	for i := range rows {
		t := &rows[i].Tally
		t.moment(p.tokens)
		for r := range p.at.results {
			if sets[0][r] {
				t.candidate(p.use(r) > 0)
			}
			if sets[i][r] {
				t.cut(p.size(r), p.use(r), p.use(r) > 0 && p.missed(r, p.at, sets[i]))
			}
		}
		t.rates()
	}
	return rows
}

// mayCut reports whether the common keys let the filter touch a result.
func (s *setting) mayCut(ix *transcript.Index, result int32) bool {
	r := &ix.Results[result]
	return s.config.Barred(ix, r) == "" && s.config.Small(ix, r) == ""
}

// use is how many turns later a result is first used, 0 for never.
func (p *point) use(result int32) int {
	turns, known := p.uses[result]
	if !known {
		turns, _ = p.used(result, p.at)
		p.uses[result] = turns
	}
	return turns
}
