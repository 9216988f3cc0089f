package replay

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/bill"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestCalibrationFindsRatioAndHead(t *testing.T) {
	for _, ratio := range []float64{2.4, 3.6, 4.7} {
		s := story0(t)
		s.bill(ratio, 30_000)
		c := calibrate(s.write())
		if !near(c.CharsPerToken, ratio, 0.02) || !near(float64(c.HeadTokens), 30_000, 0.02) || c.Points != 17 {
			t.Errorf("ratio %v: got %+v", ratio, c)
		}
	}
	if c := calibrate(story0(t).write()); c.CharsPerToken != defaultRatio || c.Points != 0 || c.HeadTokens != 0 {
		t.Errorf("without usage: got %+v", c)
	}
}

// A head that would have to be negative is none: then the line goes through the origin.
func TestCalibrationWithoutHead(t *testing.T) {
	slope, head := line([]float64{10, 20, 40}, []float64{4, 9, 19})
	if !near(slope, 0.5, 1e-9) || !near(head, -1, 1e-9) {
		t.Errorf("line: slope %v, at 0 %v", slope, head)
	}
	if got := ray([]float64{10, 20}, []float64{5, 10}); !near(got, 0.5, 1e-9) {
		t.Errorf("ray: %v", got)
	}
}

func TestModelAgreesWithItself(t *testing.T) {
	s := story0(t)
	s.bill(3, 20_000)
	r := run(t, s.write(), Options{Policies: policies(t, nothing)})[0]
	if r.Recorded == nil || r.Recorded.Requests != 17 || !near(r.Recorded.Units, r.Recorded.Modelled, 0.02) {
		t.Fatalf("got %+v", r.Recorded)
	}
	if r.Bill != r.PassThrough || r.Ratio != 1 || r.NetRatio != 1 {
		t.Errorf("nothing was done, and the bills differ: %+v, %+v", r.PassThrough, r.Bill)
	}
	if signed, size := Errors([]*Report{r}); signed == nil || size.Most.Value < 0 {
		t.Error("no spread of the error")
	}
}

func TestPoliciesSideBySide(t *testing.T) {
	rec := story0(t).write()
	dir := t.TempDir()
	reports := run(t, rec, Options{Policies: policies(t, nothing, reads, lifts), Bodies: dir})
	observe, removal, lever := reports[0], reports[1], reports[2]
	if observe.Ratio != 1 || observe.Bill.Refused != 0 {
		t.Errorf("observe: %+v", observe.Bill)
	}
	if removal.Moves != 1 || removal.Decisions["readlifecycle"] != 1 || removal.Ratio >= 1 {
		t.Errorf("readlifecycle: %d moves, %v, ratio %v", removal.Moves, removal.Decisions, removal.Ratio)
	}
	if lever.Moves != 0 || lever.Bill.Write5m != 0 || lever.Bill.Write1h == 0 || lever.Bill.ReadShare() <= observe.Bill.ReadShare() {
		t.Errorf("1h: %+v", lever.Bill)
	}
	for _, r := range reports {
		b := r.Bill
		if b.Prompt != b.Input+b.Read+b.Write5m+b.Write1h || b.Requests != 17 || b.USD <= 0 || len(r.Turns) != 17 {
			t.Errorf("%s: %+v", r.Policy, b)
		}
		// One folder for each policy, as an independent judge reads them.
		if _, err := os.Stat(filepath.Join(dir, r.Policy, "scene", "turns.jsonl")); err != nil {
			t.Error(err)
		}
	}
	sum := Sum([]*Report{observe, removal})
	if sum.Bill.Requests != 34 || sum.Moves != 1 || !near(sum.Bill.Units, observe.Bill.Units+removal.Bill.Units, 1e-9) {
		t.Errorf("sum: %+v", sum)
	}
	if s := Spread(reports); s.Least.Value > s.Median.Value || s.Median.Value > s.Most.Value || s.Points != 3 {
		t.Errorf("spread: %+v", s)
	}
}

func TestWhatAMoveBrought(t *testing.T) {
	r := run(t, story0(t).write(), Options{Policies: policies(t, reads)})[0]
	if len(r.MoveList) != 1 {
		t.Fatalf("%d moves", len(r.MoveList))
	}
	m := r.MoveList[0]
	if m.Kind != pipeline.Cold || m.N != 9 || m.FromMessage != 2 || m.Lost != 0 || m.Calls != 17-m.N || m.Forecast <= 0 {
		t.Errorf("got %+v", m)
	}
	// Nothing else happened, so what the move brought is what the session saved.
	if saved := r.PassThrough.USD - r.Bill.USD; !near(saved, m.Outcome, 0.02) {
		t.Errorf("the session saved $%.4f, the move brought $%.4f", saved, m.Outcome)
	}
	if saved := r.PassThrough.Units - r.Bill.Units; !near(saved, m.Units, 0.02) {
		t.Errorf("the session saved %v units, the move brought %v", saved, m.Units)
	}
}

// Taking a request's decisions back leaves its other changes, and decisions of before.
func TestUndone(t *testing.T) {
	rec := story0(t).write()
	body := rec.Requests[3].Body()
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	replace := func(results ...int) []byte {
		var edits []pipeline.Edit
		for _, r := range results {
			edits = append(edits, pipeline.Edit{Span: ix.Results[r].Content, Text: ix.Replacement(&ix.Results[r], "short")})
		}
		return pipeline.Splice(body, edits)
	}
	o := &pipeline.Outcome{Format: transcript.Anthropic, New: []pipeline.DecisionMade{{Call: "toolu_2"}, {Call: "toolu_3", Hold: true}}}
	if got := undone(body, replace(0, 1), nil, o); !bytes.Equal(got, replace(0)) {
		t.Error("not what was forwarded before")
	}
	if got := undone(body, []byte("{"), nil, o); string(got) != "{" {
		t.Errorf("got %s", got)
	}
}

func TestUsedAgain(t *testing.T) {
	r := run(t, story0(t).write(), Options{Policies: policies(t, reads)})[0]
	if u := r.Reuse; u.Removed != 1 || u.Referenced != 1 || u.Reread != 1 || u.Again != 1 || u.Penalty <= 0 || u.Tokens < 1000 {
		t.Errorf("got %+v", r.Reuse)
	}
	if r.NetRatio <= r.Ratio {
		t.Errorf("net %v, bill %v", r.NetRatio, r.Ratio)
	}
}

// Where the provider does not lift, a longer life that is asked for later is paid and not had.
func TestNoLiftReachesTheProvider(t *testing.T) {
	auto := `{"pipeline":[],"ttl":"auto"}`
	lifted := run(t, story0(t).write(), Options{Policies: policies(t, auto)})[0]
	not := run(t, story0(t).write(), Options{Policies: policies(t, auto), Provider: Provider{NoLift: true}})[0]
	if lifted.Bill.Write1h == 0 {
		t.Fatal("nothing was lifted")
	}
	if lifted.Bill.ReadShare() <= not.Bill.ReadShare() || lifted.Ratio >= not.Ratio {
		t.Errorf("lifted: %+v, not: %+v", lifted.Bill, not.Bill)
	}
}

func TestRecordedUsageFindsItsRequest(t *testing.T) {
	s := newScene(t)
	s.human(0, "Hello.")
	s.call("Bash", map[string]any{"command": "true"}, "ok")
	s.add("assistant", text("Done."))
	// One client names the message and counts the cached part apart, another gives times and counts it in.
	s.usage = []any{nil, map[string]any{"msg": 3, "input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}}
	rec := s.write()
	if rec.Requests[0].Recorded != nil || rec.Requests[1].Recorded == nil || *rec.Requests[1].Recorded != (pipeline.Usage{Input: 5, Read: 100, Write5m: 20}) {
		t.Errorf("by message: %+v", rec.Requests[1].Recorded)
	}
	s.usage = []any{
		map[string]any{"ts": s.ts[1], "input_tokens": 50},
		map[string]any{"ts": s.ts[3], "input_tokens": 125, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20},
	}
	rec = s.write()
	if first, last := rec.Requests[0].Recorded, rec.Requests[1].Recorded; first == nil || last == nil || first.Input != 50 || *last != (pipeline.Usage{Input: 5, Read: 100, Write5m: 20}) {
		t.Errorf("by time: %+v, %+v", first, last)
	}
}

// On the recordings that lie beside the project the modelled bill of pass-through agrees with the recorded one.
func TestModelAgreesWithRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("plays recorded sessions")
	}
	files, err := filepath.Glob(filepath.Join(shared(t, "corpus"), "cc-cli-*.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var reports []*Report
	for i := 0; i < len(files); i += 8 {
		rec, err := Open(files[i])
		if err != nil {
			t.Fatal(err)
		}
		b, err := passThrough(t.Context(), rec, &Options{})
		if err != nil {
			t.Fatal(err)
		}
		if b.recorded == nil || b.bill.Refused > 0 {
			t.Errorf("%s: %+v, %d requests refused", rec.Name, b.recorded, b.bill.Refused)
		}
		reports = append(reports, &Report{Session: rec.Name, Recorded: b.recorded})
	}
	_, size := Errors(reports)
	if size == nil || size.Points < 8 || size.Median.Value > 0.12 {
		t.Fatalf("got %+v", size)
	}
}

// A refusal is free: what a policy's requests cost is compared over those that both were billed for.
func TestRefusalsAreNotCompared(t *testing.T) {
	b, err := passThrough(t.Context(), story0(t).write(), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := play(t.Context(), b, &policies(t, nothing)[0], "", Provider{})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Ratio != 1 {
		t.Fatalf("ratio %v", whole.Ratio)
	}
	b.sent[3], b.sent[16] = nil, nil // as if the provider had refused them as they came
	b.bill = bill.Bill{}
	for _, u := range b.sent {
		units, usd := tariff{transcript.Anthropic, b.model}.price(u)
		b.bill.Add(u, units, usd)
	}
	partly, err := play(t.Context(), b, &policies(t, nothing)[0], "", Provider{})
	if err != nil {
		t.Fatal(err)
	}
	if c := partly.compared; partly.Ratio != 1 || c.policy.Requests != 15 || c.policy != c.passThrough || partly.Bill != whole.Bill {
		t.Errorf("ratio %v of %+v", partly.Ratio, c)
	}
	if sum := Sum([]*Report{whole, partly}); sum.Ratio != 1 || sum.compared.policy.Requests != 32 {
		t.Errorf("sum: %+v", sum.compared)
	}
}

// What was missed on a request that is not billed is charged with the next one that is.
func TestMissesOfUnbilledRequestsAreCharged(t *testing.T) {
	s := newStory()
	s.introduced["c"] = []string{"alphaCounter"}
	s.said[1] = saying{used: map[string]bool{"alphaCounter": true}}
	u, q, claude := newReuse(s), &Request{Lineage: "main"}, tariff{transcript.Anthropic, "claude-opus-4-5"}
	u.turn(0, q, &pipeline.Outcome{New: []pipeline.DecisionMade{{Call: "c", Tokens: 100}}}, nil)
	u.paid(claude, &pipeline.Usage{Read: 1000})
	u.turn(1, q, &pipeline.Outcome{}, nil) // counts tokens, or was refused
	u.turn(2, q, &pipeline.Outcome{}, nil)
	if u.result.Penalty != 0 {
		t.Fatalf("penalty %v before anything was billed", u.result.Penalty)
	}
	u.paid(claude, &pipeline.Usage{Read: 1000})
	once := u.result.Penalty
	u.paid(claude, &pipeline.Usage{Read: 1000})
	if once < extraCall || u.result.Penalty != once {
		t.Errorf("penalty %v, then %v", once, u.result.Penalty)
	}
}

func TestStands(t *testing.T) {
	s := newStory()
	s.introduced["c"] = []string{"foo_bar1"}
	u, said := newReuse(s), saying{used: map[string]bool{"foo_bar1": true}}
	for raw, want := range map[string]bool{
		`"foo_bar1"`: true, `"foo_bar12"`: false, `"xfoo_bar1"`: false, `"foo_bar12 foo_bar1"`: true, `"a\nfoo_bar1\tb"`: true, `"C:\\nfoo_bar1"`: false,
		`"src/foo_bar1.go"`: true, `foo_bar1`: true, `"foo_bar"`: false, ``: false, `"éfoo_bar1é"`: true,
	} {
		if got := stands([]byte(raw), "foo_bar1"); got != want || u.references("c", &said, []byte(raw)) == want {
			t.Errorf("%s: %t", raw, got)
		}
	}
}
