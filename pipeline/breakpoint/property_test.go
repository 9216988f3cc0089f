package breakpoint_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// scatter sets up to five markers anywhere that the provider allows; tidy says that every 1h stands before every 5m.
func scatter(t *rapid.T, c *gen.Conversation, tidy bool) {
	c.Unmark()
	var free []*gen.Block
	collect := func(blocks []gen.Block) {
		for i := range blocks {
			if b := &blocks[i]; b.Type() != "thinking" && b.Type() != "redacted_thinking" && b.Get("text") != "" {
				free = append(free, b)
			}
		}
	}
	collect(c.Tools)
	collect(c.System)
	for i := range c.Messages {
		collect(c.Messages[i].Blocks)
	}
	if len(free) == 0 {
		return
	}
	n, last := rapid.SampledFrom([]int{0, 1, 2, 3, 3, 4}).Draw(t, "markers"), len(free)-1
	at := []int{last}
	for range n { // small numbers are likely: at the start or the end of the body
		k := rapid.IntRange(0, last).Draw(t, "at")
		if rapid.Bool().Draw(t, "from the end") {
			k = last - k
		}
		at = append(at, k)
	}
	slices.Sort(at)
	long := rapid.IntRange(0, n+1).Draw(t, "1h")
	for i, k := range slices.Compact(at) {
		free[k].Marker = gen.Short
		if i < long || !tidy && rapid.Bool().Draw(t, "untidy") {
			free[k].Marker = gen.Long
		}
	}
	if rapid.SampledFrom([]bool{false, false, true}).Draw(t, "top") {
		c.TopMarker = gen.Short
	}
}

// fataler is what a check needs of a test.
type fataler interface {
	Fatalf(format string, args ...any)
}

// drawn is a body with what is held, where the frontier is and what is asked for, and the plan for it.
type drawn struct {
	ix     *transcript.Index
	client []breakpoint.Mark
	in     breakpoint.Input
	plan   breakpoint.Plan
	out    []byte
	after  *transcript.Index
}

func draw(t *rapid.T, format transcript.Format) *drawn {
	strange := rapid.Bool().Draw(t, "strange")
	m := gen.New(gentest.Source(t), gen.Options{Strange: strange, Wild: rapid.Bool().Draw(t, "wild"), Dialects: format != transcript.Anthropic, ResultBytes: 20})
	far := rapid.Bool().Draw(t, "far") // marked as agents do, with a frontier in the first half
	turns := 16
	if !far {
		turns = rapid.SampledFrom([]int{24, 4, 0}).Draw(t, "turns")
	}
	c := m.Conversation(turns)
	switch {
	case rapid.SampledFrom([]bool{false, false, true}).Draw(t, "none"):
		c.Unmark()
	case !far && (!strange || rapid.Bool().Draw(t, "marked anew")):
		scatter(t, c, rapid.Bool().Draw(t, "tidy"))
	}
	d := &drawn{ix: read(t, c.As(gen.Format(format.String())), format)}
	if format == transcript.Converse {
		d.ix.Model = rapid.SampledFrom([]string{"us.anthropic.claude-sonnet-4-6", "anthropic.claude-sonnet-4-6", "anthropic.claude-opus-4-20250514-v1:0", "amazon.nova-pro-v1:0"}).Draw(t, "model")
	}
	d.in = rapid.SampledFrom([]breakpoint.Input{{}, hour, hour, lower, lower, five}).Draw(t, "ask")
	d.in.Index, d.in.Frontier, d.in.Place = d.ix, -1, rapid.SampledFrom([]bool{true, true, false}).Draw(t, "place")
	in := d.ix.Messages
	if far {
		in = in[:(len(in)+1)/2]
	}
	switch rapid.SampledFrom([]string{"message", "message", "anywhere", "none"}).Draw(t, "frontier") {
	case "anywhere":
		d.in.Frontier = int32(rapid.IntRange(0, d.ix.Len()-1).Draw(t, "at"))
	case "message":
		if m := rapid.SampledFrom(in).Draw(t, "at"); m.First < m.Last {
			d.in.Frontier = d.ix.SeqOf(m.Last - 1)
		}
	}
	holding := rapid.Bool().Draw(t, "holding")
	for i := range d.ix.Results {
		if holding && rapid.IntRange(0, 5).Draw(t, "held") == 5 {
			d.in.Held = append(d.in.Held, d.ix.SeqOf(d.ix.Results[i].Block))
		}
	}
	d.decide(t)
	return d
}

// decide makes the plan and the outbound.
func (d *drawn) decide(t fataler) {
	d.client = breakpoint.Client(d.ix)
	d.plan = decide(t, d.in)
	d.out = apply(d.ix.Body, d.plan.Edits)
	d.after = read(t, d.out, d.ix.Format)
	d.after.Model = d.ix.Model
}

func decide(t fataler, in breakpoint.Input) breakpoint.Plan {
	plan, err := breakpoint.Decide(&in)
	if err != nil {
		t.Fatalf("decide: %v", err)
	}
	return plan
}

func read(t fataler, body []byte, format transcript.Format) *transcript.Index {
	ix, err := transcript.Parse(body, format)
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return ix
}

// TestProperties: whatever the body, what is held and where the frontier is, the outbound is the client's body with the
// markers of the plan, and these keep the law.
func TestProperties(t *testing.T) {
	for _, format := range []transcript.Format{transcript.Anthropic, transcript.Converse} {
		t.Run(format.String(), func(t *testing.T) {
			seen := map[string]int{}
			rapid.Check(t, func(t *rapid.T) {
				d := draw(t, format)
				d.check(t, seen)
				d.held(t, seen)
				d.bridge(t, seen)
			})
			t.Logf("%v", seen)
			for _, what := range []string{"lawful", "unlawful", "accepted", "stripped", "anchored", "kept", "untouched", "raised", "lowered", "placed"} {
				if seen[what] == 0 && (what != "accepted" || format == transcript.Anthropic) {
					t.Errorf("%s: never seen", what)
				}
			}
		})
	}
}

// check is what holds whatever the body and whatever is asked for.
func (d *drawn) check(t fataler, seen map[string]int) {
	d.edits(t)
	d.values(t)
	d.law(t, seen)
	d.ttls(t, seen)
	d.placed(t, seen)
	d.again(t)
}

// edits are sorted and disjoint, each can be proved, and there are none if nothing was done.
func (d *drawn) edits(t fataler) {
	at := uint32(0)
	for i, e := range d.plan.Edits {
		if !breakpoint.IsEdit(d.ix, e) {
			t.Fatalf("edit %+v cannot be proved in %s", e, d.ix.Body)
		}
		if e.Span.Lo < at || e.Span.Hi < e.Span.Lo || i > 0 && e.Span == d.plan.Edits[i-1].Span {
			t.Fatalf("edits overlap or are not sorted: %v", d.plan.Edits)
		}
		at = e.Span.Hi
	}
	if p := &d.plan; p.Stripped+p.Anchored+p.Kept+p.Placed+p.Raised+p.Lowered == 0 && !bytes.Equal(d.out, d.ix.Body) {
		t.Fatalf("nothing was done, but the body changed by %v", d.plan.Edits)
	}
}

// values: without its markers the outbound means what the client's body means, and it has exactly the plan's markers.
func (d *drawn) values(t fataler) {
	if diff := cmp.Diff(unmarked(t, d.ix.Body), unmarked(t, d.out)); diff != "" {
		t.Fatalf("something besides markers changed: %s", diff)
	}
	marks := breakpoint.Client(d.after)
	if len(marks) != len(d.plan.Marks) {
		t.Fatalf("%d markers, planned %d in %s", len(marks), len(d.plan.Marks), d.out)
	}
	for i, m := range marks {
		if p := d.plan.Marks[i]; m.Seq != p.Seq || m.TTL != p.TTL {
			t.Fatalf("marker %d at %d for %v, planned at %d for %v", i, m.Seq, m.TTL, p.Seq, p.TTL)
		}
	}
}

// unmarked decodes a body and takes every cache_control and every cachePoint out that marks, or could mark, something.
func unmarked(t fataler, body []byte) any {
	var v any
	r := json.NewDecoder(bytes.NewReader(body))
	r.UseNumber()
	if err := r.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return strip(v)
}

func strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "cache_control")
		for k := range v {
			v[k] = strip(v[k])
		}
	case []any:
		v = slices.DeleteFunc(v, func(e any) bool {
			m, ok := e.(map[string]any)
			return ok && len(m) == 1 && m["cachePoint"] != nil
		})
		for i := range v {
			v[i] = strip(v[i])
		}
		return v
	}
	return v
}

// law: what breaks no rule of the provider breaks none afterwards, and no body gets worse.
func (d *drawn) law(t fataler, seen map[string]int) {
	before, after := faults(d.ix), faults(d.after)
	if len(before) == 0 {
		seen["lawful"]++
	} else {
		seen["unlawful"]++
	}
	for _, f := range after {
		if !slices.Contains(before, f) {
			t.Fatalf("%s in %s", f, d.out)
		}
	}
	if d.ix.Format == transcript.Anthropic && len(d.plan.Edits) > 0 && accepted(d.ix.Body) == nil {
		seen["accepted"]++
		if err := accepted(d.out); err != nil {
			t.Fatalf("the provider refuses: %v", err)
		}
	}
	if n := len(d.plan.Marks); n > max(len(d.client), d.plan.Placed)+1 {
		t.Fatalf("%d markers became %d", len(d.client), n)
	}
}

// ttls: what is asked for changes no place, only TTLs: all of them, or only those below it.
func (d *drawn) ttls(t fataler, seen map[string]int) {
	in := d.in
	in.TTL, in.Lower = 0, false
	kept := decide(t, in)
	if len(kept.Marks) != len(d.plan.Marks) {
		t.Fatalf("%d markers, %d if no TTL is asked for", len(d.plan.Marks), len(kept.Marks))
	}
	lifted, lowered := 0, 0
	for i, m := range d.plan.Marks {
		was := kept.Marks[i]
		want := was.TTL
		if fixed := d.plan.Fixed != breakpoint.FreeTTL || len(d.client) > 4; d.in.TTL > 0 && !fixed && (d.in.TTL > want || d.in.Lower) {
			want = d.in.TTL
		}
		if m.Seq != was.Seq || m.TTL != want {
			t.Fatalf("marker %d at %d for %v, want %d for %v", i, m.Seq, m.TTL, was.Seq, want)
		}
		switch {
		case want > was.TTL:
			lifted++
		case want < was.TTL:
			lowered++
		}
	}
	if d.plan.Raised != lifted || d.plan.Lowered != lowered {
		t.Fatalf("raised %d and lowered %d, but %d and %d were", d.plan.Raised, d.plan.Lowered, lifted, lowered)
	}
	seen["raised"], seen["lowered"] = seen["raised"]+d.plan.Raised, seen["lowered"]+d.plan.Lowered
	if d.plan.Fixed != breakpoint.FreeTTL {
		seen["fixed"]++
		if d.plan.Fixed != breakpoint.CanSetTTL(d.ix) || d.in.TTL == 0 {
			t.Fatalf("fixed by %d", d.plan.Fixed)
		}
	}
}

// placed: markers are placed only on a body without any, at most one in the head and one in the messages, before what is held.
func (d *drawn) placed(t fataler, seen map[string]int) {
	if len(d.client) > 0 || d.ix.TopMarker || !d.in.Place {
		if d.plan.Placed > 0 {
			t.Fatalf("placed %d where the client has %d", d.plan.Placed, len(d.client))
		}
		return
	}
	head, messages := 0, 0
	for _, m := range d.plan.Marks {
		if m.Seq < int32(len(d.ix.Head)) {
			head++
			continue
		}
		messages++
		if len(d.in.Held) > 0 {
			if m.Seq >= slices.Min(d.in.Held) {
				t.Fatalf("placed at %d, held from %d on", m.Seq, slices.Min(d.in.Held))
			}
			seen["placed before a held one"]++
		}
	}
	if d.ix.Format == transcript.Converse && d.plan.Placed > 0 && !strings.Contains(d.ix.Model, "claude") {
		t.Fatalf("placed %d for %s", d.plan.Placed, d.ix.Model)
	}
	if messages -= d.plan.Kept; head > 1 || messages > 1 || head+messages != d.plan.Placed {
		t.Fatalf("placed %d: %+v", d.plan.Placed, d.plan.Marks)
	}
	seen["placed"] += d.plan.Placed
	if last := d.ix.Messages[len(d.ix.Messages)-1]; messages == 0 {
		seen["not placed"]++
		if last.First < last.Last && last.Role == transcript.User && len(d.in.Held) == 0 && !strings.Contains(d.ix.Model, "nova") {
			if n := d.ix.SeqOf(last.Last - 1); d.ix.Seq(n).Kind != transcript.Other && breakpoint.Markable(d.ix, n) {
				t.Fatalf("nothing on the tail of %s", d.ix.Body)
			}
		}
	}
}

// again: the outbound is changed no more.
func (d *drawn) again(t fataler) {
	in := d.in
	in.Index = d.after
	if plan := decide(t, in); len(plan.Edits) > 0 {
		t.Fatalf("decided again: %+v in %s", plan.Edits, d.out)
	}
}

// accepted asks a simulated provider, which reads bodies in its own way.
func accepted(body []byte) error {
	r := simprovider.New(simprovider.Options{}).Call(body, http.Header{"X-Api-Key": {"k"}}, time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC))
	if r.Status != http.StatusOK {
		return r.Err
	}
	return nil
}

// faults are the rules of the provider that a body's markers break.
func faults(ix *transcript.Index) (list []string) {
	count, short := 0, false
	add := func(f string) {
		if !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	each := func(ttl time.Duration) {
		if count++; count > 4 {
			add("more than four markers")
		}
		if short && ttl == time.Hour {
			add("1h behind 5m")
		}
		short = short || ttl != time.Hour
	}
	for n := range int32(ix.Len()) {
		for _, m := range ix.Markers {
			if m.Seq == n && m.Nested {
				each(m.TTL)
				add("a marker inside a block")
			}
		}
		b := ix.Seq(n)
		if b.Marker < 0 {
			continue
		}
		each(ix.Markers[b.Marker].TTL)
		if b.Kind == transcript.Thinking {
			add("a marker on thinking")
		}
		if b.Empty {
			add("a marker on empty text")
		}
	}
	if ix.TopMarker {
		each(ix.TopTTL)
	}
	return list
}

// held: a hold leaves no marker at or behind the earliest held block and puts one before it; or it touches nothing.
func (d *drawn) held(t *rapid.T, seen map[string]int) {
	seen["stripped"] += min(d.plan.Stripped, 1)
	seen["anchored"] += d.plan.Anchored
	if d.plan.Anchored > 0 && d.plan.Stripped == 0 {
		t.Fatalf("anchored without stripping")
	}
	if d.plan.Stripped == 0 {
		return
	}
	first := slices.Min(d.in.Held)
	before := d.client[:0:0]
	for _, m := range d.client {
		if m.Seq < first {
			before = append(before, m)
		}
	}
	if len(d.client)-len(before) != d.plan.Stripped {
		t.Fatalf("%d of %d markers at or behind the held block were stripped", d.plan.Stripped, len(d.client)-len(before))
	}
	last := int32(-1)
	for _, m := range d.plan.Marks {
		if m.Seq >= first {
			t.Fatalf("a marker at %d, held from %d on", m.Seq, first)
		}
		last = m.Seq
	}
	for n := last + 1; n < first; n++ {
		if b := d.ix.Seq(n); b.Markable() && (b.Kind != transcript.Other || d.ix.Format == transcript.Anthropic) && string(bytes.TrimSpace(b.Raw.Of(d.ix.Body)[1:b.Raw.Len()-1])) != "" && n >= int32(len(d.ix.Head)) {
			t.Fatalf("the last marker is at %d, but block %d may carry it too", last, n)
		}
	}
}

// bridge: a frontier that could be bridged has a marker within reach.
func (d *drawn) bridge(t *rapid.T, seen map[string]int) {
	seen["kept"] += d.plan.Kept
	f := d.in.Frontier
	if d.plan.Kept > 0 && len(d.plan.Marks) == len(d.client)-d.plan.Stripped+d.plan.Anchored {
		seen["taken over"]++
	}
	if d.plan.Kept+d.plan.Stripped == 0 {
		seen["untouched"]++
	}
	if f < int32(len(d.ix.Head)) {
		if d.plan.Kept > 0 {
			t.Fatalf("a bridge without a frontier in the messages")
		}
		return
	}
	near, behind, room := false, false, len(d.client) < 4
	for i, m := range d.plan.Marks {
		if m.Seq >= f {
			behind = true
			near = near || positions(d.ix, f, m.Seq) <= 18
		}
		room = room || m.Seq >= int32(len(d.ix.Head)) && i < len(d.plan.Marks)-1
	}
	fits := d.ix.Seq(f).Markable() && (d.ix.Seq(f).Kind != transcript.Other || d.ix.Format == transcript.Anthropic) && len(bytes.TrimSpace(d.ix.Seq(f).Raw.Of(d.ix.Body))) > 2
	if behind && !near && fits && room && !slices.ContainsFunc(d.ix.Markers, func(m transcript.Marker) bool { return m.Nested }) && len(d.client) <= 4 {
		t.Fatalf("frontier %d is out of reach of %+v", f, d.plan.Marks)
	}
	if d.plan.Kept > 0 && !slices.ContainsFunc(d.plan.Marks, func(m breakpoint.Mark) bool { return m.Seq == f }) {
		t.Fatalf("kept %d, but none at the frontier", d.plan.Kept)
	}
}

// positions counts how far b lies behind a as the provider does, or at most as it may.
func positions(ix *transcript.Index, a, b int32) (n int) {
	if ix.Format == transcript.Converse {
		return int(b - a)
	}
	for a < b {
		kind := ix.Seq(a).Kind
		a++
		if same := ix.Seq(a).Kind == kind; !same || kind != transcript.ToolUse && kind != transcript.ToolResult {
			n++
		}
	}
	return n
}
