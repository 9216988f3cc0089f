package breakpoint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
)

// placement is a body as a script, what is held, where the last marker stood before, and the markers of the outbound.
type placement struct {
	name, body, held, frontier, want string
	in                               breakpoint.Input // TTL, Lower and Place
	did                              breakpoint.Plan  // all but Marks and Edits
}

var (
	moved   = breakpoint.Plan{Stripped: 1, Anchored: 1}
	bridged = breakpoint.Plan{Kept: 1}
)

// Claude Code marks the last two system blocks and the last block of the last message.
var claudeCode = []placement{
	{
		name: "nothing held, nothing far", body: "system: text* text*; user: text; assistant: call; user: result*", frontier: "messages.0.content.0",
		want: "system.0 5m, system.1 5m, messages.2.content.0 5m",
	},
	{
		name: "a held result that carries the marker itself", body: "system: text* text*; user: text; assistant: text call; user: result*",
		held: "messages.2.content.0", want: "system.0 5m, system.1 5m, messages.1.content.1 5m", did: moved,
	},
	{
		name: "the marker on a reminder behind the held result", body: "system: text* text*; user: text; assistant: call; user: result text*",
		held: "messages.2.content.0", want: "system.0 5m, system.1 5m, messages.1.content.0 5m", did: moved,
	},
	{
		name: "the second of parallel results is held", body: "system: text* text*; user: text; assistant: call×3; user: result×2 result*",
		held: "messages.2.content.1", want: "system.0 5m, system.1 5m, messages.2.content.0 5m", did: moved,
	},
	{
		name: "the earliest of several counts", body: "system: text* text*; user: text; assistant: call×3; user: result×2 result*",
		held: "messages.2.content.2 messages.2.content.0", want: "system.0 5m, system.1 5m, messages.1.content.2 5m", did: moved,
	},
	{
		name: "held for some turns", body: "system: text* text*; user: text; assistant: call; user: result; assistant: think call; user: result*",
		held: "messages.2.content.0", frontier: "messages.1.content.0", want: "system.0 5m, system.1 5m, messages.1.content.0 5m", did: moved,
	},
	{
		name: "the anchor has a marker", body: "system: text*; user: text; assistant: call*; user: result*",
		held: "messages.2.content.0", want: "system.0 5m, messages.1.content.0 5m", did: breakpoint.Plan{Stripped: 1},
	},
	{
		name: "several markers behind the held result", body: "system: text*; user: text; assistant: call; user: result*; assistant: call*; user: result*",
		held: "messages.2.content.0", want: "system.0 5m, messages.1.content.0 5m", did: breakpoint.Plan{Stripped: 3, Anchored: 1},
	},
	{
		name: "no marker behind the held result", body: "system: text*; user: text*; assistant: call; user: result",
		held: "messages.2.content.0", want: "system.0 5m, messages.0.content.0 5m",
	},
	{
		name: "parallel calls with much text between", body: "system: text* text*; user: text; assistant: text×19 call; user: result*",
		frontier: "messages.0.content.0", want: "system.0 5m, system.1 5m, messages.0.content.0 5m, messages.2.content.0 5m", did: bridged,
	},
	{
		name: "a release leaves the anchor far behind", body: "system: text*; user: text; assistant: call; user: result text×18 text*",
		frontier: "messages.1.content.0", want: "system.0 5m, messages.1.content.0 5m, messages.2.content.19 5m", did: bridged,
	},
}

// opencode marks two system blocks and the last two messages: four are in use.
var fourInUse = []placement{
	{
		name: "the first message marker makes room", body: "system: text* text*; user: text; assistant: text×19 call*; user: result*",
		frontier: "messages.0.content.0", want: "system.0 5m, system.1 5m, messages.0.content.0 5m, messages.2.content.0 5m", did: bridged,
	},
	{
		name: "a marker near enough makes no room", body: "system: text* text*; user: text; assistant: call*; user: result text×19 text*",
		frontier: "messages.0.content.0", want: "system.0 5m, system.1 5m, messages.1.content.0 5m, messages.2.content.20 5m",
	},
	{
		name: "one before the frontier makes room", body: "system: text* text*; user: text*; assistant: text; user: text×19 text*",
		frontier: "messages.1.content.0", want: "system.0 5m, system.1 5m, messages.1.content.0 5m, messages.2.content.19 5m", did: bridged,
	},
	{
		name: "system markers never make room", body: "system: text* text* text*; user: text; assistant: text×19; user: text*",
		frontier: "messages.0.content.0", want: "system.0 5m, system.1 5m, system.2 5m, messages.2.content.0 5m",
	},
	{
		name: "a nested marker never makes room", body: "system: text* text*; user: nested; assistant: text; user: text×19 text*",
		frontier: "messages.1.content.0", want: "system.0 5m, system.1 5m, messages.0.content.0.content.0 5m, messages.2.content.19 5m",
	},
	{
		name: "nor does one that is alone in the messages", body: "system: text* text* text*; user: text; assistant: text×19; user: nested",
		frontier: "messages.0.content.0", want: "system.0 5m, system.1 5m, system.2 5m, messages.2.content.0.content.0 5m",
	},
	{
		name: "a hold makes room", body: "system: text* text*; user: text; assistant: text×19 call; user: result* text*",
		held: "messages.2.content.0", frontier: "messages.0.content.0", did: breakpoint.Plan{Stripped: 2, Anchored: 1, Kept: 1},
		want: "system.0 5m, system.1 5m, messages.0.content.0 5m, messages.1.content.19 5m",
	},
	{
		name: "a hold that needs no anchor makes room", body: "system: text* text*; user: text; assistant: text×19 call*; user: result*",
		held: "messages.2.content.0", frontier: "messages.0.content.0", did: breakpoint.Plan{Stripped: 1, Kept: 1},
		want: "system.0 5m, system.1 5m, messages.0.content.0 5m, messages.1.content.19 5m",
	},
	{
		name: "an anchor never makes room", body: "system: text* text*; user: text; assistant: text×19 call think*; user: result*",
		held: "messages.2.content.0", frontier: "messages.0.content.0", did: breakpoint.Plan{Stripped: 1, Anchored: 1, Kept: 1},
		want: "system.0 5m, system.1 5m, messages.0.content.0 5m, messages.1.content.19 5m",
	},
	{
		name: "what is held takes two markers", body: "system: text* text*; user: text; assistant: call; user: result*; assistant: call; user: result*",
		held: "messages.2.content.0", want: "system.0 5m, system.1 5m, messages.1.content.0 5m", did: breakpoint.Plan{Stripped: 2, Anchored: 1},
	},
}

var mixedTTLs = []placement{
	{
		name: "the anchor takes the TTL of the tail", body: "system: text*1h text*1h; user: text; assistant: call; user: result*",
		held: "messages.2.content.0", want: "system.0 1h, system.1 1h, messages.1.content.0 5m", did: moved,
	},
	{
		name: "the anchor takes the TTL of the first marker behind it", body: "system: text*1h; user: text; assistant: call; user: result*1h text*",
		held: "messages.2.content.0", want: "system.0 1h, messages.1.content.0 1h", did: breakpoint.Plan{Stripped: 2, Anchored: 1},
	},
	{
		name: "a later marker inside a block comes later", body: "system: text*1h; user: text; assistant: call; user: result*1h nested",
		held: "messages.2.content.0", want: "system.0 1h, messages.1.content.0 1h", did: breakpoint.Plan{Stripped: 2, Anchored: 1},
	},
	{
		name: "a marker at the anchor keeps its TTL", body: "system: text*1h; user: text; assistant: call*1h; user: result*",
		held: "messages.2.content.0", want: "system.0 1h, messages.1.content.0 1h", did: breakpoint.Plan{Stripped: 1},
	},
	{
		name: "a bridge takes the TTL of the next marker", body: "system: text*1h text*1h; user: text; assistant: text×19; user: text*",
		frontier: "messages.0.content.0", want: "system.0 1h, system.1 1h, messages.0.content.0 5m, messages.2.content.0 5m", did: bridged,
	},
	{
		name: "a bridge before an hour", body: "system: text*1h; user: text; assistant: text×19 text*1h; user: text*",
		frontier: "messages.0.content.0", want: "system.0 1h, messages.0.content.0 1h, messages.1.content.19 1h, messages.2.content.0 5m", did: bridged,
	},
	{
		name: "a bridge behind an hour takes its room", body: "system: text*1h text*1h; user: text*1h text; assistant: text×19; user: text*",
		frontier: "messages.0.content.1", want: "system.0 1h, system.1 1h, messages.0.content.1 5m, messages.2.content.0 5m", did: bridged,
	},
	{
		name: "a client that breaks the law is not made to keep it", body: "system: text*; user: text; assistant: call; user: result*1h",
		held: "messages.2.content.0", want: "system.0 5m, messages.1.content.0 1h", did: moved,
	},
}

var automatic = []placement{
	{
		name: "nothing can be held", body: "top: *; user: text; assistant: call; user: result* text",
		held: "messages.2.content.0", want: "messages.2.content.0 5m, 5m",
	},
	{
		name: "a bridge", body: "top: *1h; system: text*1h; user: text; assistant: text×19; user: string",
		frontier: "messages.0.content.0", want: "system.0 1h, messages.0.content.0 1h, 1h", did: bridged,
	},
	{
		name: "a bridge in the room of a message marker", body: "top: *; system: text* text*; user: text; assistant: text×19 text*; user: text",
		frontier: "messages.0.content.0", want: "system.0 5m, system.1 5m, messages.0.content.0 5m, 5m", did: bridged,
	},
	{
		name: "a bridge in the room of the first marker of all", body: "top: *; user: text* text; assistant: text×19 text* text*; user: text",
		frontier: "messages.0.content.1", want: "messages.0.content.1 5m, messages.1.content.19 5m, messages.1.content.20 5m, 5m", did: bridged,
	},
	{
		name: "its own marker never makes room", body: "top: *; system: text* text* text*; user: text; assistant: text×19; user: text",
		frontier: "messages.0.content.0", want: "system.0 5m, system.1 5m, system.2 5m, 5m",
	},
	{
		name: "it stands on the last block that may carry it", body: "top: *; user: text; assistant: text×17 text empty×20 think×20",
		frontier: "messages.0.content.0", want: "5m",
	},
}

// blocks that may not carry a marker of ours.
var unfit = []placement{
	{
		name: "thinking is no anchor", body: "user: text; assistant: think redacted; user: result*",
		held: "messages.2.content.0", want: "messages.0.content.0 5m", did: moved,
	},
	{
		name: "empty text is no anchor", body: "user: text empty; assistant: empty; user: result*",
		held: "messages.2.content.0", want: "messages.0.content.0 5m", did: moved,
	},
	{
		name: "a string is no anchor", body: "user: image; assistant: string; user: result*",
		held: "messages.2.content.0", want: "messages.0.content.0 5m", did: moved,
	},
	{
		name: "a null marker leaves no place", body: "user: text null; user: result*",
		held: "messages.1.content.0", want: "messages.0.content.0 5m", did: moved,
	},
	{
		name: "an object without members is no anchor", body: "user: text bare; user: result*",
		held: "messages.1.content.0", want: "messages.0.content.0 5m", did: moved,
	},
	{
		name: "system is no anchor", body: "system: text; user: string; assistant: think; user: result*",
		held: "messages.2.content.0", want: "messages.2.content.0 5m",
	},
	{
		name: "a marker inside the anchor is not the anchor's own", body: "user: text; assistant: call; user: nested result*",
		held: "messages.2.content.1", want: "messages.2.content.0.content.0 5m, messages.2.content.0 5m", did: moved,
	},
	{
		name: "a nested marker behind a read that is held since is taken off too", body: "user: text; assistant: call; user: result nested*",
		held: "messages.2.content.0", want: "messages.1.content.0 5m", did: breakpoint.Plan{Stripped: 2, Anchored: 1},
	},
	{name: "no bridge on thinking", body: "user: think text×19 text*", frontier: "messages.0.content.0", want: "messages.0.content.20 5m"},
	{name: "no bridge on empty text", body: "user: empty text×19 text*", frontier: "messages.0.content.0", want: "messages.0.content.20 5m"},
	{name: "no bridge on a string", body: "user: string; user: text×19 text*", frontier: "messages.0.content.0", want: "messages.1.content.19 5m"},
	{name: "no bridge on a null marker", body: "user: null text×19 text*", frontier: "messages.0.content.0", want: "messages.0.content.20 5m"},
	{name: "no bridge on an object without members", body: "user: bare text×19 text*", frontier: "messages.0.content.0", want: "messages.0.content.20 5m"},
	{name: "no bridge in system", body: "system: text text; user: text×19 text*", frontier: "system.1", want: "messages.0.content.19 5m"},
	{
		name: "a bridge on the first block of the messages", body: "system: text; user: text×20 text*", frontier: "messages.0.content.0",
		want: "messages.0.content.0 5m, messages.0.content.20 5m", did: bridged,
	},
	{name: "no bridge where a marker stands", body: "user: text* text×19 text*", frontier: "messages.0.content.0", want: "messages.0.content.0 5m, messages.0.content.20 5m"},
	{name: "no bridge without a frontier", body: "user: text×20 text*", want: "messages.0.content.20 5m"},
	{name: "no bridge without a marker behind", body: "system: text*; user: text*; user: text×20", frontier: "messages.1.content.0", want: "system.0 5m, messages.0.content.0 5m"},
	{name: "no bridge without any marker", body: "user: text×20", frontier: "messages.0.content.0"},
	{
		name: "more markers than the provider accepts", body: "system: text* text* text*; user: text* text; assistant: text×19 call; user: result*",
		held: "messages.2.content.0", frontier: "messages.0.content.1",
		want: "system.0 5m, system.1 5m, system.2 5m, messages.0.content.0 5m, messages.2.content.0 5m",
	},
	{
		name: "a nested marker stands before its block's own", body: "system: text*1h; user: text; assistant: text×19; user: turned",
		frontier: "messages.0.content.0", want: "system.0 1h, messages.0.content.0 1h, messages.2.content.0.content.0 1h, messages.2.content.0 5m", did: bridged,
	},
}

// TestPlacement shows hold, keep-previous and the law on bodies as clients send them.
func TestPlacement(t *testing.T) {
	for _, group := range []struct {
		name  string
		cases []placement
	}{{"Claude Code", claudeCode}, {"four in use", fourInUse}, {"TTLs", mixedTTLs}, {"automatic", automatic}, {"unfit", unfit}, {"raised", raised}, {"lowered", lowered}, {"placed", placed}} {
		for _, c := range group.cases {
			t.Run(group.name+"/"+c.name, func(t *testing.T) { c.run(t) })
		}
	}
}

func (c *placement) run(t *testing.T) {
	t.Helper()
	body := write(t, c.body)
	ix := parse(t, body)
	in := c.in
	in.Index, in.Frontier = ix, seq(t, ix, c.frontier)
	for at := range strings.FieldsSeq(c.held) {
		in.Held = append(in.Held, seq(t, ix, at))
	}
	plan, err := breakpoint.Decide(&in)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(vectors.Markers(apply(body, plan.Edits)), ", "); got != c.want {
		t.Errorf("markers %s\nwant    %s", got, c.want)
	}
	did := plan
	did.Marks, did.Edits = nil, nil
	if diff := cmp.Diff(c.did, did); diff != "" {
		t.Error(diff)
	}
	if did.Fixed = breakpoint.FreeTTL; cmp.Equal(did, breakpoint.Plan{}) && len(plan.Edits) > 0 {
		t.Errorf("%d edits for nothing", len(plan.Edits))
	}
}

// TestLookback: a marker finds entries up to 20 positions back, its own included. Up to 18 positions behind the frontier are
// near, and a run of calls, or of results, is one position.
func TestLookback(t *testing.T) {
	for _, c := range []struct {
		frontier, behind string // blocks behind the frontier, the last one marked
		far              bool
	}{
		{"text", "text×17 text*", false},
		{"text", "text×18 text*", true},
		{"text", "call×40 result×40 text×15 text*", false},
		{"text", "call×40 result×40 text×16 text*", true},
		{"call", "call×40 result×40 text×16 text*", false}, // the frontier is a part of the run
		{"call", "call×40 result×40 text×17 text*", true},
		{"result", "result×40 text×17 text*", false},
		{"result", "call×40 result×40 text×16 text*", true},
		{"text", "text×17 call×9 call*", false},
		{"text", "text×18 call×9 call*", true},
		{"text", "text×17 result×9 result*", false},
		{"text", "text×18 result×9 result*", true},
		{"text", strings.Repeat("call think ", 8) + "text call call*", false},
		{"text", strings.Repeat("call think ", 9) + "call*", true},
		{"image", "image×17 image*", false},
		{"image", "image×18 image*", true},
	} {
		body := write(t, "user: text; assistant: "+c.frontier+"; assistant: "+c.behind)
		ix := parse(t, body)
		plan, err := breakpoint.Decide(&breakpoint.Input{Index: ix, Frontier: seq(t, ix, "messages.1.content.0")})
		if err != nil || plan.Kept == 1 != c.far {
			t.Errorf("%s, then %s: kept %d, want far %v (%v)", c.frontier, c.behind, plan.Kept, c.far, err)
		}
	}
}

// TestCanHoldAt: a result can be held if a marker stands at or after it, none of these inside a block, and another block
// before it may carry the marker.
func TestCanHoldAt(t *testing.T) {
	for _, c := range []struct {
		body string
		want breakpoint.HoldGate
	}{
		{"user: text; assistant: call; user: result*", breakpoint.CanHold},
		{"user: text; assistant: call; user: result text*", breakpoint.CanHold},
		{"user: nested; assistant: call; user: result*", breakpoint.CanHold},
		{"user: text; assistant: call*; user: result", breakpoint.NoMarker},
		{"system: text*; user: text; assistant: call; user: result", breakpoint.NoMarker},
		{"user: text; assistant: call; user: nested", breakpoint.NestedMarker},
		{"user: text; assistant: call; user: nested*", breakpoint.NestedMarker},
		{"user: text; assistant: call; user: result* nested", breakpoint.NestedMarker},
		{"system: text; user: string; assistant: think; user: result*", breakpoint.NoAnchor},
		{"system: text* text* text* text*; user: text; assistant: call; user: result*", breakpoint.NoAnchor},
		{"system: text* text* text*; user: text; assistant: call; user: result*", breakpoint.CanHold},
		{"top: *; user: text; assistant: call; user: result*", breakpoint.Automatic},
	} {
		ix := parse(t, write(t, c.body))
		if got := breakpoint.CanHoldAt(ix, nil, seq(t, ix, "messages.2.content.0")); got != c.want {
			t.Errorf("%s: %d, want %d", c.body, got, c.want)
		}
	}
}

// TestReplaced: a marker inside content that is replaced is gone with it: it neither counts nor is taken off.
func TestReplaced(t *testing.T) {
	ix := parse(t, write(t, "system: text* text*; user: nested; assistant: text; user: text×19 text*"))
	in := breakpoint.Input{Index: ix, Frontier: seq(t, ix, "messages.1.content.0"), Replaced: []int32{seq(t, ix, "messages.0.content.0")}}
	plan, err := breakpoint.Decide(&in)
	if err != nil || plan.Kept != 1 || len(plan.Marks) != 4 || len(plan.Edits) != 1 {
		t.Errorf("%+v (%v)", plan, err)
	}
	ix = parse(t, write(t, "user: text; assistant: call×2; user: result nested*"))
	in = breakpoint.Input{Index: ix, Frontier: -1, Held: []int32{seq(t, ix, "messages.2.content.0")}, Replaced: []int32{seq(t, ix, "messages.2.content.1")}}
	plan, err = breakpoint.Decide(&in)
	if err != nil || plan.Stripped != 1 || len(plan.Marks) != 1 || len(plan.Edits) != 2 {
		t.Errorf("%+v (%v)", plan, err)
	}
	in.Replaced = []int32{seq(t, ix, "messages.2.content.0")} // another one's marker stays
	if plan, err = breakpoint.Decide(&in); err != nil || plan.Stripped != 2 {
		t.Errorf("%+v (%v)", plan, err)
	}
}

// TestClient: the markers of a body as it came, in the provider's order; automatic caching counts as one.
func TestClient(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"user: text", ""},
		{"tools: tool*1h; system: text*1h text; user: text; assistant: text; user: text text*", "0 1h0m0s, 1 1h0m0s, 6 5m0s"},
		{"top: *; user: text", "0 5m0s"},
		{"top: *1h; system: text*1h; user: text; assistant: call; user: result", "0 1h0m0s, 3 1h0m0s"},
		{"top: *; user: text; assistant: string", "1 5m0s"},
		{"top: *; user: text; assistant: text empty think redacted", "1 5m0s"},
		{"top: *; user: empty think", ""},
		{"user: twice twice", "0 1h0m0s, 0 5m0s, 1 1h0m0s, 1 5m0s"},
		{"user: text turned", "1 1h0m0s, 1 5m0s"},
		{"user: nested1h*; user: nested", "0 1h0m0s, 0 5m0s, 1 5m0s"},
	} {
		var got []string
		for _, m := range breakpoint.Client(parse(t, write(t, c.body))) {
			got = append(got, fmt.Sprintf("%d %v", m.Seq, m.TTL))
		}
		if list := strings.Join(got, ", "); list != c.want {
			t.Errorf("%s: %s, want %s", c.body, list, c.want)
		}
	}
}
