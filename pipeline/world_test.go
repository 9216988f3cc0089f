package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/simagent"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// faulty is a store that can be told to fail.
type faulty struct {
	state.Store
	fail bool
}

var errFault = errors.New("disk on fire")

func (f *faulty) Commit(ctx context.Context, k state.SessionKey, b *state.Branch, o []state.Original) (uint64, error) {
	if f.fail {
		return 0, errFault
	}
	return f.Store.Commit(ctx, k, b, o)
}

func (f *faulty) Merge(ctx context.Context, k state.SessionKey, b []*state.Branch) (uint64, error) {
	if f.fail {
		return 0, errFault
	}
	return f.Store.Merge(ctx, k, b)
}

// violation is a broken promise, with the request that broke it.
type violation struct {
	n    int
	kind string
	text string
}

func (v violation) String() string { return fmt.Sprintf("request %d: %s: %s", v.n, v.kind, v.text) }

// sent is what is remembered of a request for those that follow.
type sent struct {
	client, out []transcript.Digest // blocks in the provider's order, markers left out
	of          []int               // by block of out: the block of client that it stands for, of a stub the one before it
	body        []byte              // out
	dropped     int                 // messages of client that are not in out
	covered     int                 // blocks of out through its last breakpoint
	key         transcript.Digest
	replica     int  // that forwarded it
	away        bool // while the store failed: no other replica ever learns of it
}

// edit is a branch's history before and after its client changed it, where a move was made on the changed one. The client may come
// back to the one before, which has the same decisions by then.
type edit struct{ before, after []transcript.Digest }

// world plays one list of events against the provider twice: as it is, and through engines.
type world struct {
	ctx      context.Context
	store    *faulty
	engines  []*pipeline.Engine
	configs  []*pipeline.Config
	base     *pipeline.Config
	plain    *simprovider.Sim
	filtered *simprovider.Sim
	hasher   *transcript.Hasher
	flush    time.Duration
	flushed  time.Time

	last       map[string]sent
	decided    map[string]map[string]string // by branch: call and original → what stood for it
	violations []violation
	plainCost  float64
	cost       float64
	n          int
	trace      bool
	moves      int
	warm       int
	made       int
	cuts       int
	cutLost    int            // requests in which a cut did not stand: the client went back to before its end
	by         map[string]int // new decisions by filter
	keepRecent int            // turns that no cut may touch
	pins       string         // start of lines that keep a human's text, where cuts leave humans out; empty: humans stay
	pinned     int            // texts that were kept so
	held       int
	refused    int
	reasons    []string
	// outage: a request went past tidemark in the midst of a session. What it did to the cache nobody could know, so a loss
	// after it is counted, not a violation of its own.
	outage   bool
	replicas bool
	edits    []edit
	unmoved  map[uint64]bool // branches with a move whose request never reached the provider: the next one makes it
	excused  int
	seen     bool
	past     map[string]bool  // bodies that went past tidemark
	beside   *simprovider.Sim // a provider that got these alone
	policy   simprovider.Policy
	forgot   int  // tokens of shorter prefixes that lapsed while a longer one was read
	lost     int  // tokens more uncached than without tidemark, all requests together
	bridged  int  // tokens that bridges read, less those that were lost since
	blind    bool // no response is looked at
	pending  []onItsWay
	said     tallyOf
}

// onItsWay is a response that has not arrived.
type onItsWay struct {
	at       time.Time
	replica  int
	outcome  *pipeline.Outcome
	response *pipeline.Response
}

// tallyOf counts what observations said.
type tallyOf struct{ coldMisjudged, liftMisjudged, braked, ineffective, raised int }

// await lets a response arrive once its first byte is there.
func (w *world) await(ev *simagent.Event, o *pipeline.Outcome, res *simprovider.Result) {
	if o == nil || w.blind {
		return
	}
	r := &pipeline.Response{Status: res.Status, Message: res.ID, Model: res.Model}
	if ev.Outcome == simagent.Unknown {
		r = &pipeline.Response{}
	} else if res.Status == http.StatusOK {
		u := res.Usage
		r.Usage = &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output}
	}
	w.said.raised += b2i(o.Breakpoints.Raised > 0)
	w.pending = append(w.pending, onItsWay{res.First, ev.Replica, o, r})
}

// answer tells the engines of every response that has arrived by now.
func (w *world) answer(now time.Time) {
	left := w.pending[:0]
	for _, a := range w.pending {
		if a.at.After(now) {
			left = append(left, a)
			continue
		}
		ob := w.engines[a.replica].Observe(w.ctx, a.outcome, a.response)
		w.said.coldMisjudged += b2i(ob.ColdMisjudged)
		w.said.liftMisjudged += b2i(ob.LiftMisjudged)
		w.said.braked += b2i(ob.Braked)
		w.said.ineffective += b2i(ob.Ineffective)
		if w.trace && (ob.ColdMisjudged || ob.LiftMisjudged || ob.Braked || ob.Ineffective || ob.Loss != nil) {
			fmt.Printf("    %+v loss %+v\n", *ob, ob.Loss)
		}
	}
	w.pending = left
}

func newWorld(base *pipeline.Config, policy simprovider.Policy, flush time.Duration) *world {
	w := &world{
		policy: policy, ctx: context.Background(), store: &faulty{Store: memory.New()}, base: base, flush: flush,
		plain: simprovider.New(simprovider.Options{Policy: policy}), filtered: simprovider.New(simprovider.Options{Policy: policy}),
		beside: simprovider.New(simprovider.Options{Policy: policy}),
		hasher: transcript.NewHasher(bytes.Repeat([]byte("k"), 32)), by: map[string]int{}, past: map[string]bool{}, unmoved: map[uint64]bool{}, keepRecent: keepRecent, last: map[string]sent{}, decided: map[string]map[string]string{},
	}
	for i := range 2 {
		w.configs = append(w.configs, base)
		w.engines = append(w.engines, nil)
		w.restart(i, time.Time{})
	}
	return w
}

func (w *world) restart(i int, at time.Time) {
	e, err := pipeline.New(w.ctx, w.store, pipeline.Options{Flush: -1, Start: at, DeepProof: true})
	if err != nil {
		w.violate("start", "%v", err)
		return
	}
	w.engines[i] = e
}

func (w *world) violate(kind, format string, args ...any) {
	w.violations = append(w.violations, violation{w.n, kind, fmt.Sprintf(format, args...)})
}

// lose records a loss of cached tokens.
func (w *world) lose(kind, format string, args ...any) {
	if w.outage {
		w.excused++
		return
	}
	w.violate(kind, format, args...)
}

// play runs all events.
func (w *world) play(events []simagent.Event) {
	for i := range events {
		ev := &events[i]
		w.answer(ev.At)
		if ev.At.Sub(w.flushed) >= w.flush {
			w.flushed = ev.At
			for _, e := range w.engines {
				e.Flush(w.ctx)
			}
		}
		w.n = i
		w.replicas = w.replicas || ev.Replica > 0
		switch ev.Kind {
		case simagent.Restart:
			w.outage = w.outage || w.store.fail && w.seen // what was forwarded since the store failed is forgotten
			w.restart(ev.Replica, ev.At)
		case simagent.Lose:
			w.store.Store = memory.New()
			clear(w.last)
			clear(w.decided)
			w.outage = true
			for k := range w.engines {
				w.restart(k, ev.At)
			}
		case simagent.StoreFail:
			w.store.fail = ev.On
			w.outage = w.outage || ev.On && w.replicas // then no replica knows what the other one forwards
		case simagent.Config, simagent.Mode:
			w.push(ev)
		case simagent.Send:
			w.send(ev)
		}
	}
}

func (w *world) push(ev *simagent.Event) {
	for i := range w.configs {
		c := *w.configs[i]
		switch ev.Arg {
		case "bad":
			c.Bad = true
		case "ok":
			mode := c.Mode
			c = *w.base
			c.Mode = mode
		case "off":
			if ev.Kind == simagent.Config {
				c.Filters = nil
			} else {
				c.Mode = pipeline.Off
			}
		case "active":
			c.Mode = pipeline.Active
		case "shadow":
			c.Mode = pipeline.Shadow
		}
		w.configs[i] = &c
	}
}

// send plays one request in both worlds.
func (w *world) send(ev *simagent.Event) {
	out, o := ev.Body, (*pipeline.Outcome)(nil)
	if ev.Seen {
		o = w.through(ev)
		if o.Body != nil {
			out = o.Body
		}
	}
	if ev.Count {
		return
	}
	first, past := false, false
	if ev.Seen && o.Gate != filters.Off {
		first = !w.seen
		w.outage = w.outage || !w.seen && w.past[string(ev.Body)] // it was sent before anybody looked: what seems fresh is cached
		w.seen = true
	} else {
		w.outage = w.outage || w.seen
		w.past[string(ev.Body)], past = true, true
	}
	if w.trace && ev.Outcome == simagent.Failed && o != nil {
		fmt.Println(w.n, ev.Line, "failed", o.Kind, o.Gate)
	}
	if ev.Outcome == simagent.Failed {
		if o != nil && o.Move != nil {
			w.unmoved[o.Branch] = true
		}
		w.await(ev, o, &simprovider.Result{Status: http.StatusBadGateway, First: ev.At})
		w.follow(ev, o, out)
		return
	}
	h := http.Header{"X-Api-Key": {"k"}, "X-Sim-Delay": {ev.TTFB.String()}}
	if ev.Reply != "null" && ev.Reply != "[]" {
		h.Set("X-Sim-Reply", ev.Reply)
	}
	if ev.Drop {
		h.Set("Anthropic-Beta", "thinking-binding-controls-2026-08-01")
	}
	before := w.plain.Call(ev.Body, h, ev.At)
	w.outage = w.outage || first && before.Usage.Read == before.Prompt && before.Prompt > 0 // the same, with other bytes that mean the same
	peek, aside := -1, 0
	if o != nil && o.Move != nil {
		if body := w.replayed(ev, o); body != nil {
			peek, aside = w.filtered.Cached(body, ev.At), w.beside.Cached(body, ev.At)
		}
	}
	after := w.filtered.Call(out, h, ev.At)
	if past {
		w.beside.Call(out, h, ev.At)
	}
	if after.Status != http.StatusOK && before.Status == http.StatusOK {
		w.violate("refused", "%v", after.Err)
	}
	if before.Status != http.StatusOK && w.trace {
		fmt.Println(w.n, ev.Line, before.Err)
	}
	if before.Status != http.StatusOK {
		w.refused++
		w.reasons = append(w.reasons, before.Err.Error())
		if o != nil && o.Move != nil { // declared all the same
			w.follow(ev, o, out)
		}
		return
	}
	if peek > after.Usage.Read && o.Move.Kind == pipeline.Cold {
		w.outage = w.outage || peek == aside // it was cached before anybody looked
		w.lose("misjudged", "the move lost %d cached tokens", peek-after.Usage.Read)
	}
	if w.trace {
		k, m := "unseen", -1
		if o != nil {
			k = fmt.Sprintf("%v %v b=%x p=%x gate=%q cache=%v new=%d held=%d rep=%d bp=%v", o.Kind, o.Level, o.Branch>>48, o.Parent>>48, o.Gate, o.Cache, len(o.New), o.Held, o.Replays, o.Breakpoints)
			if o.Move != nil {
				m = int(o.Move.From)
			}
		}
		fmt.Printf("%3d %s %-6s %s msgs=%d %s move=%d | plain %d+%d(%d) | tide %d+%d(%d)\n", w.n, ev.At.Format("15:04:05"), ev.Line, gjson.GetBytes(ev.Body, "system.2.text").Str+ev.Outcome, len(gjson.GetBytes(ev.Body, "messages").Array()), k, m, before.Usage.Read, before.Prompt-before.Usage.Read, before.Prompt, after.Usage.Read, after.Prompt-after.Usage.Read, after.Prompt)
	}
	w.plainCost += w.plain.Cost(simprovider.Received{Model: before.Model, Usage: before.Usage})
	w.cost += w.filtered.Cost(simprovider.Received{Model: after.Model, Usage: after.Usage})
	if o == nil {
		return
	}
	w.await(ev, o, &after)
	w.follow(ev, o, out)
	declared := o.Move != nil || w.unmoved[o.Branch] || o.Held > 0 || slices.ContainsFunc(o.New, func(d pipeline.DecisionMade) bool { return d.Matured })
	delete(w.unmoved, o.Branch)
	lost := (after.Prompt - after.Usage.Read) - (before.Prompt - before.Usage.Read)
	w.lost += lost
	// A bridge reads what is not found without it, in the place of a breakpoint that a rewind would find: no more than that.
	if o.Breakpoints.Kept > 0 && o.Move == nil {
		w.bridged += max(0, after.Usage.Read-before.Usage.Read)
	}
	if paid := min(lost, w.bridged); paid > 0 {
		w.bridged, lost = w.bridged-paid, lost-paid
	}
	if w.base.Levers.TTL != pipeline.KeepTTL {
		// What a lift kept alive was not written anew, nor was what is shorter: reads count in sum. A provider that renews
		// nothing but the entry that it read lets the shorter ones lapse, and a rewind pays for them once more.
		if lost > 0 && w.policy.Refresh == simprovider.RefreshHit {
			w.forgot += lost
			lost = 0
		}
		lost = min(lost, w.lost)
	}
	if lost > 0 && lost < uncached && after.Prompt < 2*uncached && o.Replays+o.Cut > 0 {
		w.excused++ // after a rewind to so few messages that what is left is too small to be cached
		return
	}
	if lost > 0 && w.unedited(ev.Body) {
		w.excused++
		return
	}
	if lost > 0 && w.cutLost > 0 { // what was cut is written anew where the client goes back to before it
		return
	}
	if lost > 0 && !declared && w.held == 0 && w.warm == 0 { // what a warm move re-writes a retry may have to write again
		w.lose("read loss", "%d more tokens uncached than without tidemark (kind %v, gate %q)", lost, o.Kind, o.Gate)
	}
}

// unedited reports whether a body is a history from before an edit, rather than from after it.
func (w *world) unedited(body []byte) bool {
	in, _, _ := w.view(body)
	return slices.ContainsFunc(w.edits, func(e edit) bool { return lcp(e.before, in.client) > lcp(e.after, in.client) })
}

// uncached is the largest of the minima below which providers cache nothing, in tokens.
const uncached = 4096

// replayed is what would have been sent without the move: the outbound with this request's new markers taken back. Of a cut it is
// what was sent before, as far as the client only added to it; nil if it did not.
func (w *world) replayed(ev *simagent.Event, o *pipeline.Outcome) []byte {
	if slices.ContainsFunc(o.New, func(d pipeline.DecisionMade) bool { return d.Drop }) {
		in, _, _ := w.view(ev.Body)
		prev, ok := w.last[fmt.Sprint(o.Branch)]
		if !ok || prev.key != in.key || lcp(prev.client, in.client) < len(prev.client) {
			return nil
		}
		return prev.body
	}
	out := o.Body
	for _, d := range o.New {
		orig, err := w.store.Original(w.ctx, d.ID)
		if err != nil {
			continue
		}
		if raw := contentOf(out, d.Call); raw != "" { // a marker names its id, so it stands once
			out = bytes.Replace(out, []byte(raw), orig.Content, 1)
		}
	}
	return out
}

// contentOf finds the content of the result of a call.
func contentOf(body []byte, call string) (raw string) {
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		for _, b := range m.Get("content").Array() {
			if b.Get("tool_use_id").Str == call {
				raw = b.Get("content").Raw
			}
		}
	}
	return raw
}

// through sends a request through the engine of its replica.
func (w *world) through(ev *simagent.Event) *pipeline.Outcome {
	ctx := w.ctx
	if ev.L1 {
		c, cancel := context.WithCancel(ctx)
		cancel()
		ctx = c
	}
	return w.engines[ev.Replica].Request(ctx, &pipeline.Request{
		Format: transcript.Anthropic, Body: ev.Body, Tenant: "t", Session: ev.Session, Now: ev.At, Config: w.configs[ev.Replica],
		CountTokens: ev.Count, Auxiliary: ev.Class != "", Bypass: ev.Bypass,
	})
}

// view reads a body again, independently of what the engine thought of it.
func (w *world) view(body []byte) (s sent, results map[string]string, contents map[string]string) {
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		w.violate("unreadable", "%v", err)
		return s, nil, nil
	}
	defer ix.Release()
	ix.Digest(w.hasher)
	s.key = ix.Key
	for n := range int32(ix.Len()) {
		s.client = append(s.client, ix.Seq(n).Hash)
	}
	for _, m := range ix.Markers {
		s.covered = max(s.covered, int(m.Seq)+1)
	}
	results, contents = map[string]string{}, map[string]string{}
	for i := range ix.Results {
		r := &ix.Results[i]
		id := string([]byte(ix.CallID(r)))
		results[id] = string(ix.Body[r.Content.Lo:r.Content.Hi])
		contents[id] = string([]byte(ix.ResultText(r)))
	}
	return s, results, contents
}

// follow checks a request against those before it on its branch.
func (w *world) follow(ev *simagent.Event, o *pipeline.Outcome, out []byte) {
	if o == nil || o.Branch == 0 || o.Gate == filters.SideRequest || o.Gate == filters.Busy || o.Gate == filters.TooManyBranches {
		return
	}
	if o.Undeclared {
		w.violate("undeclared", "the engine itself saw a changed prefix (kind %v)", o.Kind)
	}
	w.moves += b2i(o.Move != nil)
	w.warm += b2i(o.Move != nil && o.Move.Kind == pipeline.Warm)
	for _, d := range o.New {
		w.made += b2i(!d.Hold && !d.Drop)
		w.by[d.Filter]++
		w.held += b2i(d.Hold)
	}
	for g := range o.Gates {
		w.cutLost += b2i(g.Gate == filters.CutLost)
	}
	in, before, _ := w.view(ev.Body)
	after, results, _ := w.view(out)
	now := sent{client: in.client, out: after.client, covered: after.covered, key: in.key, body: out, replica: ev.Replica, away: w.store.fail}
	cut := slices.ContainsFunc(o.New, func(d pipeline.DecisionMade) bool { return d.Drop })
	missing := w.align(ev.Body, out, &now, cut)
	now.dropped = len(missing)
	if now.dropped != o.Cut {
		w.violate("cut", "%d messages are missing, %d are said to be", now.dropped, o.Cut)
	}
	id, parent := fmt.Sprint(o.Branch), fmt.Sprint(o.Parent)
	prev, ok := w.last[id]
	if !ok {
		prev, ok = w.last[parent]
	}
	if ok && o.Move != nil && o.Kind == pipeline.KindContinue && lcp(prev.client, now.client) < len(prev.client) {
		w.edits = append(w.edits, edit{prev.client, now.client})
	}
	// The client came back to where a cut stands: on a fork of its own, or on one that got the cut with all else of its parent.
	back := now.dropped > 0 && prev.dropped == 0 && (o.Kind == pipeline.KindFork || !cut && w.sentSo(&now, lcp(prev.out, now.out)))
	if ok && prev.key == now.key && o.Move == nil && !back {
		same := lcp(prev.client, now.client)
		want := 0
		for want < prev.covered && prev.of[want] < same {
			want++
		}
		if got := lcp(prev.out, now.out); got < want && prev.away && prev.replica != ev.Replica {
			w.excused++ // nobody here could know what was sent
		} else if got < want {
			w.violate("append-only", "%d of %d covered blocks stand (kind %v)", got, want, o.Kind)
		}
	}
	if o.Kind != pipeline.KindRetry || !ok {
		w.last[id] = now
	}
	w.decisions(id, before, results)
	for _, d := range o.New {
		if d.Drop {
			w.cuts++
			w.spanSaved(out, missing)
			continue
		}
		if d.ID == "" || d.Hold {
			continue
		}
		orig, err := w.store.Original(w.ctx, d.ID)
		if err != nil || string(orig.Content) != before[d.Call] {
			w.violate("unrecoverable", "original of %s: %v", d.Call, err)
		}
	}
}

// sentSo reports whether another branch has sent the same cut before, with more of the same around it than so many blocks.
func (w *world) sentSo(now *sent, blocks int) bool {
	for _, s := range w.last {
		if s.dropped == now.dropped && lcp(s.out, now.out) > blocks {
			return true
		}
	}
	return false
}

// decisions checks that what stands for a result is never changed nor taken back.
func (w *world) decisions(branch string, before, after map[string]string) {
	known := w.decided[branch]
	for call, orig := range before {
		key := call + "\x00" + orig
		now, there := after[call]
		if was, ok := known[key]; ok && there && now != was {
			w.violate("undecided", "result %s stands otherwise than before", call)
		}
		if there && now != orig {
			if known == nil {
				known = map[string]string{}
				w.decided[branch] = known
			}
			known[key] = now
		}
	}
}

func lcp(a, b []transcript.Digest) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
