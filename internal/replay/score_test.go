package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters/coref"
)

// said is one turn of the model with what answers it, for scores.
type said struct {
	Says, With string // text, and an argument of the call
	Result     string // large if it is not empty; else the turn has no call
	Beside     string // of the user, after the result
}

// talk is a session of these turns.
func talk(t *testing.T, turns []said) *scene {
	t.Helper()
	s := newScene(t)
	s.human(0, "Begin, please.")
	for i, d := range turns {
		id := fmt.Sprintf("toolu%d", i)
		answer := text("And %s.", d.Beside)
		if d.Result == "" {
			s.add("assistant", text("So %s.", d.Says))
			s.add("user", answer)
			continue
		}
		s.add("assistant", text("So %s.", d.Says), map[string]any{"type": "tool_use", "id": id, "name": "Run", "input": map[string]any{"with": d.With}})
		s.add("user", map[string]any{"type": "tool_result", "tool_use_id": id, "content": large(d.Result)}, answer)
	}
	s.add("assistant", text("This is the end."))
	return s
}

// large is a result of more than 300 tokens.
func large(words string) string {
	return strings.Repeat("and then a line of words that say nothing\n", 50) + words + " here"
}

// quiet are turns that say nothing.
func quiet(n int) []said { return make([]said, n) }

func heldOutScore(t *testing.T, turns []said) *Score {
	t.Helper()
	s, err := ScoreSession(t.Context(), talk(t, turns).write(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at returns the row of a point, of all points for 0, without its rates.
func at(t *testing.T, s *Score, percent int, verdict string) Tally {
	t.Helper()
	i := slices.IndexFunc(s.Points, func(r ScoreRow) bool { return r.Point == percent && r.Verdict == verdict })
	if i < 0 {
		t.Fatalf("no row of %d %% and %s", percent, verdict)
	}
	return s.Points[i].Tally
}

func TestFalseDropsOfAKnownSession(t *testing.T) {
	turns := slices.Concat([]said{
		{Result: "alphaCounter"},
		{Result: "betaCounter"},
		{Result: "gammaCounter"},
		{Result: "nothing of note"},
		{Result: "deltaCounter"},
		{Says: "deltaCounter is it"},
		{Result: "epsilonCounter"},
	}, quiet(16), []said{
		{Beside: "epsilonCounter"},
		{Says: "alphaCounter is used in a text"},
		{},
		{With: "betaCounter", Result: "no more"},
		{Says: "deltaCounter and epsilonCounter"},
	}, quiet(7))
	s := heldOutScore(t, turns) // 36 turns with the last: the point at 60 % lies before turn 21
	for verdict, want := range map[string]Tally{
		Everything:         {Candidates: 6, Used: 4, Cut: 6, FalseDrops: 4, Missed: 2},
		coref.Unreferenced: {Candidates: 6, Used: 4, Cut: 4, FalseDrops: 3, Missed: 2}, // the user says epsilonCounter before the model does
		coref.Closed:       {Candidates: 6, Used: 4, Cut: 1, FalseDrops: 1},            // what the model had said stands there
		Both:               {Candidates: 6, Used: 4, Cut: 5, FalseDrops: 4, Missed: 2},
	} {
		got := at(t, s, 60, verdict)
		counts := Tally{Candidates: got.Candidates, Used: got.Used, Cut: got.Cut, FalseDrops: got.FalseDrops, Missed: got.Missed}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("%s: %s", verdict, diff)
		}
	}
	got := at(t, s, 60, coref.Unreferenced)
	if want := [...]int{0, 1, 2, 0, 0, 0}; got.FirstUse != want { // 4, 6 and 7 turns after the point
		t.Errorf("first uses %v, want %v", got.FirstUse, want)
	}
	if got.FalseDropRate != 0.75 || got.MissedRate != 0.5 || got.UsedKept != 0.25 || !near(got.Yield, float64(got.Tokens)/float64(got.RequestTokens), 1e-9) || got.Yield == 0 {
		t.Errorf("rates %+v", got)
	}
	if early := at(t, s, 20, Both); early.Cut != 0 || early.Moments != 1 {
		t.Errorf("7 turns before the point are too few for min_later_turns: %+v", early)
	}
}

// What the engine cuts at a cold moment, by all three counts.
func TestScoreOfColdMoments(t *testing.T) {
	o := Options{Policies: policies(t, `{"pipeline":["coref"]}`, nothing)}
	s, err := ScoreSession(t.Context(), story0(t).write(), o)
	if err != nil {
		t.Fatal(err)
	}
	both := s.Cold[0].last()
	if both.Moments != 1 || both.Cut != 1 || both.FalseDrops != 1 || both.Missed != 1 || both.Reread != 1 || both.Referenced != 1 || both.Again != 1 {
		t.Errorf("the first reading is cut, and the model searches for its name and reads it again: %+v", both)
	}
	want := []Drop{{
		Session: "scene", Request: 9, Tool: "Read", Verdict: coref.Unreferenced, Age: 8, Turns: 6,
		Identifiers: []string{"alphaCounter"}, Missed: []string{"alphaCounter"}, Reread: true, Referenced: true,
	}}
	if diff := cmp.Diff(want, s.Cold[0].Drops, cmpopts.IgnoreFields(Drop{}, "Tokens")); diff != "" {
		t.Error(diff)
	}
	if n := s.Cold[1].last().Cut; n != 0 {
		t.Errorf("%d cuts without a filter", n)
	}
	sum := SumScores([]*Score{s, s})
	if got := sum.Cold[0].last(); sum.Sessions != 2 || got.Cut != 2 || got.AgainRate != 1 || len(sum.Cold[0].Drops) != 2 || sum.Cold[1].Policy != s.Cold[1].Policy {
		t.Errorf("two of them: %+v", sum)
	}
	if got, one := sum.defaults(Everything), s.defaults(Everything); got.Moments != 2*one.Moments || got.RequestTokens != 2*one.RequestTokens {
		t.Errorf("two of %+v are %+v", one, got)
	}
}

// What a later result shows again is not missed by a model that uses it then, though the cut was a false drop.
func TestShownAgainIsNotMissed(t *testing.T) {
	sc := newScene(t)
	sc.human(0, "Please look at the code.")
	sc.read("/src/one.go", "alphaCounter")
	for i := range 10 {
		if i == 4 { // too late to be cut, and long enough for a prompt that is worth a cut
			sc.read("/src/two.go", "betaCounter")
		}
		sc.call("Bash", map[string]any{"command": "true"}, "done")
	}
	sc.human(30*time.Minute, "Go on.")
	sc.read("/src/one.go", "alphaCounter")
	sc.add("assistant", text("It is alphaCounter."))
	s, err := ScoreSession(t.Context(), sc.write(), Options{Policies: policies(t, `{"pipeline":["coref"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Cold[0].last(); got.Cut != 1 || got.FalseDrops != 1 || got.Missed != 0 || got.Reread != 1 || got.Referenced != 0 {
		t.Errorf("got %+v", got)
	}
}

// drawTalk draws a session that speaks with few words.
func drawTalk(t *rapid.T) []said {
	word := rapid.SampledFrom([]string{"", "plain", "oneThing", "two_things", "src/three.go", "12345", "4a5b6c7", "sixthOne"})
	words := rapid.Custom(func(t *rapid.T) string { return word.Draw(t, "word") + " " + word.Draw(t, "word") })
	turns := make([]said, rapid.IntRange(1, 40).Draw(t, "turns"))
	for i := range turns {
		d := &turns[i]
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			d.Says = words.Draw(t, "says")
		case 1:
			d.With, d.Result = words.Draw(t, "with"), words.Draw(t, "result")
		case 2:
			d.Beside = words.Draw(t, "beside")
			if rapid.Bool().Draw(t, "with a result") {
				d.Result = words.Draw(t, "result")
			}
		default:
			d.Result = words.Draw(t, "result")
		}
	}
	return turns
}

func TestScoreEqualsTheNaiveScore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		turns := drawTalk(rt)
		s := heldOutScore(t, turns)
		ignore := cmpopts.IgnoreFields(Tally{}, "RequestTokens", "Tokens", "FalseDropTokens", "FalseDropRate", "MissedRate", "Yield", "UsedKept")
		for i, r := range s.Points {
			c := coref.Default()
			if diff := cmp.Diff(naiveTally(turns, r.Point, r.Verdict, &c), r.Tally, ignore); diff != "" {
				rt.Fatalf("row %d, %s at %d %% of %+v: %s", i, r.Verdict, r.Point, turns, diff)
			}
		}
		for _, r := range s.Grid {
			c := coref.Default()
			switch r.Key {
			case "min_later_turns":
				c.MinLaterTurns = r.Value
			case "closed_dist":
				c.ClosedDist = r.Value
			case "open_reps":
				c.OpenReps = r.Value
			}
			if r.Key == "min_tokens" && r.Value > 300 {
				continue // the results are all of one size
			}
			var want Tally
			for _, percent := range heldOutPoints {
				one := naiveTally(turns, percent, r.Verdict, &c)
				want.join(&one)
			}
			if diff := cmp.Diff(want, r.Tally, ignore); diff != "" {
				rt.Fatalf("%s of %s %d, %+v: %s", r.Verdict, r.Key, r.Value, turns, diff)
			}
		}
		monotone(rt, s)
	})
}

// monotone checks that stricter values cut no more than others.
func monotone(t *rapid.T, s *Score) {
	for _, c := range scoreCurves {
		rows := s.curve(c)
		for i := 1; i < len(rows); i++ {
			a, b := &rows[i-1], &rows[i]
			if c.key == "open_reps" { // the only one that is stricter where it is smaller
				a, b = b, a
			}
			if b.Cut > a.Cut || b.Tokens > a.Tokens || b.FalseDrops > a.FalseDrops {
				t.Fatalf("%s: %d cuts %d, %d cuts %d", c.key, a.Value, a.Cut, b.Value, b.Cut)
			}
		}
	}
}

// naiveTally counts one row by looking at every text for every result.
func naiveTally(turns []said, percent int, verdict string, c *coref.Config) (t Tally) {
	k := (len(turns) + 1) * percent / 100
	if k == 0 {
		return t
	}
	t.Moments = 1
	results := 0
	for _, d := range turns[:k-1] {
		if d.Result != "" {
			results++
		}
	}
	cut := map[int]bool{}
	for i, d := range turns[:k-1] {
		if d.Result != "" && (verdict == Everything || matches(verdict, naiveVerdict(turns, i, k, results, c))) {
			cut[i] = true
		}
	}
	for i, d := range turns[:k-1] {
		if d.Result == "" {
			continue
		}
		first, missed := 0, false
		for _, id := range naiveNews(turns, i, k, results) {
			for m := k; m < len(turns); m++ {
				if mentions(turns[m].Says+" "+turns[m].With, id) {
					if first == 0 || m-k+1 < first {
						first = m - k + 1
					}
					missed = missed || !standsBefore(turns[:m], id, cut)
					break
				}
			}
		}
		t.candidate(first > 0)
		if cut[i] {
			t.cut(0, first, missed)
		}
	}
	return t
}

func matches(verdict, got string) bool {
	return verdict == got || verdict == Both && (got == coref.Unreferenced || got == coref.Closed)
}

func mentions(text, id string) bool { return slices.Contains(strings.Fields(text), id) }

// naiveNews lists what the result of turn i introduced, as it is known before turn k.
func naiveNews(turns []said, i, k, results int) (news []string) {
	for id := range strings.FieldsSeq(turns[i].Result) {
		if id == "plain" || slices.Contains(news, id) || mentions(turns[i].Says+" "+turns[i].With+" "+turns[i].Beside, id) || standsBefore(turns[:i], id, nil) {
			continue
		}
		spread := 0
		for _, d := range turns[:k-1] {
			if mentions(d.Result, id) {
				spread++
			}
		}
		if spread <= max(5, results/4) {
			news = append(news, id)
		}
	}
	return news
}

func standsBefore(turns []said, id string, cut map[int]bool) bool {
	for i, d := range turns {
		if mentions(d.Says+" "+d.Beside, id) || d.Result != "" && mentions(d.With, id) || !cut[i] && mentions(d.Result, id) {
			return true
		}
	}
	return false
}

func naiveVerdict(turns []said, i, k, results int, c *coref.Config) string {
	news := naiveNews(turns, i, k, results)
	references, last := 0, 0
	for m := i + 1; m < k; m++ {
		if slices.ContainsFunc(news, func(id string) bool { return mentions(turns[m].Says+" "+turns[m].With, id) }) {
			references, last = references+1, 2*m+1
		}
	}
	switch {
	case len(news) == 0 || k-1-i < c.MinLaterTurns:
		return ""
	case references == 0:
		return coref.Unreferenced
	case references >= c.OpenReps || 2*k-last < c.ClosedDist:
		return ""
	}
	return coref.Closed
}

// drawnScore is a score with everything that a picture can show.
func drawnScore() *Score {
	tally := func(cut, drops, tokens int) Tally {
		t := Tally{Moments: 4, RequestTokens: 100_000, Candidates: 100, Used: 30, Cut: cut, FalseDrops: drops, Tokens: tokens}
		t.rates()
		return t
	}
	s := &Score{Sessions: 2, Grid: []ScoreRow{
		{Verdict: Everything, Tally: tally(100, 30, 40_000)},
		{Verdict: coref.Unreferenced, Tally: tally(40, 8, 6000)},
		{Verdict: coref.Closed, Tally: tally(20, 6, 3000)},
	}}
	for i, c := range scoreCurves {
		for v := range 3 {
			s.Grid = append(s.Grid, ScoreRow{Key: c.key, Value: v, Verdict: c.verdict, Tally: tally(40-20*v, 10-5*v+i*v%2, 6000-3000*v+100*i)})
		}
	}
	s.Cold = []ColdScore{*newColdScore("<default & more>"), *newColdScore("observe")}
	s.Cold[0].last().Tally = tally(30, 4, 2000)
	return s
}

func TestPictureOfAScore(t *testing.T) {
	var got bytes.Buffer
	if err := ScoreSVG(&got, drawnScore()); err != nil {
		t.Fatal(err)
	}
	golden(t, "score.svg", got.String())
	wellFormed(t, &got)
	var empty bytes.Buffer
	if err := ScoreSVG(&empty, &Score{}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, &empty)
}

// Captures have several conversations, and requests for counts of tokens.
func TestScoreOfCaptures(t *testing.T) {
	rec := &Recording{Name: "capture"}
	whole := talk(t, slices.Concat([]said{{Result: "alphaCounter"}}, quiet(12), []said{{Says: "alphaCounter"}}, quiet(4))).write()
	for i := range whole.Requests {
		r := &whole.Requests[i]
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			q := Request{At: epoch.Add(time.Duration(i) * gap), Path: path, Method: r.Method, Header: r.Header, Lineage: path, raw: r.Body()}
			q.classify()
			rec.Requests = append(rec.Requests, q)
		}
	}
	s, err := ScoreSession(t.Context(), rec, Options{Policies: policies(t, `{"pipeline":["coref"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := at(t, s, 60, coref.Unreferenced); got.Moments != 1 || got.Cut != 1 || got.FalseDrops != 1 {
		t.Errorf("got %+v", got)
	}
}
