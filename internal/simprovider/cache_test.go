package simprovider

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// usage checks what a request was billed.
func usage(t *testing.T, res Result, read, write5m, write1h, input int) {
	t.Helper()
	got := res.Usage
	got.Output = 0
	if want := (Usage{Input: input, Read: read, Write5m: write5m, Write1h: write1h}); got != want {
		t.Errorf("billed %+v\nwant %+v", got, want)
	}
}

func TestWriteThenRead(t *testing.T) {
	s := New(Options{})
	first := conv(modern, "", user(sized("a", 1500), sized("b", 500, mark5m), sized("c", 70)))
	if n := s.Cached(first, start); n != 0 {
		t.Errorf("an empty cache holds %d tokens", n)
	}
	usage(t, must(t, s, first, nil, start), 0, 2000, 0, 70)
	for range 2 { // a look changes nothing
		if n := s.Cached(first, start.Add(short)); n != 2000 {
			t.Errorf("cached %d tokens, want 2000", n)
		}
	}
	more := conv(modern, "", user(sized("a", 1500), sized("b", 500), sized("c", 70), sized("d", 30, mark5m)))
	usage(t, must(t, s, more, nil, start.Add(time.Minute)), 2000, 100, 0, 0)
	other := conv(modern, "", user(sized("a", 1500), sized("B", 500, mark5m)))
	usage(t, must(t, s, other, nil, start.Add(time.Minute)), 0, 2000, 0, 0)

	log := s.Requests()
	if len(log) != 3 || len(log[1].Live) != 2 || log[1].Live[0].Tokens != 2100 || log[1].Live[1].Tokens != 2000 || log[1].Prompt != 2100 {
		t.Errorf("logged %+v", log)
	}
	if got, want := s.Cost(log[1]), 0.1*2000+1.25*100; got != want {
		t.Errorf("cost %v, want %v", got, want)
	}
}

// TestLookback: a breakpoint looks back 20 positions, its own included.
func TestLookback(t *testing.T) {
	for positions, read := range map[int]int{19: 1100, 20: 1100, 21: 0} {
		s := New(Options{})
		old := sized("old", 1100)
		must(t, s, conv(modern, "", user(sized("old", 1100, mark5m))), nil, start)
		list := []string{old}
		for i := 2; i < positions; i++ {
			list = append(list, sized(strconv.Itoa(i), 10))
		}
		body := conv(modern, "", user(append(list, sized("new", 10, mark5m))...))
		total := 1100 + 10*(positions-1)
		usage(t, must(t, s, body, nil, start), read, total-read, 0, 0)
	}
}

// TestToolRuns: a run of calls is one position, and so is a run of results, whatever messages they stand in.
func TestToolRuns(t *testing.T) {
	s := New(Options{})
	must(t, s, conv(modern, "", user(sized("old", 1100, mark5m))), nil, start)
	uses, results := make([]string, 0, 40), make([]string, 0, 40)
	for i := range 40 {
		uses, results = append(uses, use(fmt.Sprint("a", i))), append(results, result(fmt.Sprint("a", i)))
	}
	turns := append(make([]string, 0, 20), user(sized("old", 1100)), assistant(uses[:30]...), assistant(uses[30:]...), user(results...))
	for i := range 8 {
		id := fmt.Sprint("b", i)
		turns = append(turns, assistant(use(id)), user(result(id)))
	}
	last := len(turns) - 1
	turns[last] = user(result("b7", mark5m)) // 1 + 2 + 8*2 = 19 positions
	if res := must(t, s, conv(modern, "", turns...), nil, start); res.Usage.Read != 1100 {
		t.Errorf("19 positions: read %d, want 1100", res.Usage.Read)
	}
	s.Reset()
	must(t, s, conv(modern, "", user(sized("old", 1100, mark5m))), nil, start)
	turns[last] = user(result("b7"), hi, sized("end", 10, mark5m)) // 21
	if res := must(t, s, conv(modern, "", turns...), nil, start); res.Usage.Read != 0 {
		t.Errorf("21 positions: read %d, want 0", res.Usage.Read)
	}
}

// TestLifetime: an entry lives through its ttl, counted from the start of the request that wrote or last read it.
func TestLifetime(t *testing.T) {
	slow := http.Header{simkit.HeaderDelay: {"4s"}}
	for marker, ttl := range map[string]time.Duration{mark5m: short, mark1h: long} {
		body := conv(modern, "", user(sized("a", 1100, marker)))
		for after, read := range map[time.Duration]int{ttl: 1100, ttl + 1: 0} {
			s := New(Options{})
			must(t, s, body, slow, start)
			if res := must(t, s, body, nil, start.Add(after)); res.Usage.Read != read {
				t.Errorf("ttl %v, after %v: read %d, want %d", ttl, after, res.Usage.Read, read)
			}
		}
		s := New(Options{})
		must(t, s, body, nil, start)
		must(t, s, body, nil, start.Add(ttl))
		if n := s.Cached(body, start.Add(2*ttl)); n != 1100 {
			t.Errorf("ttl %v: a read does not renew the entry", ttl)
		}
		if n := s.Cached(body, start.Add(2*ttl+1)); n != 0 {
			t.Errorf("ttl %v: an entry outlives its ttl", ttl)
		}
	}
}

// TestMixedLifetimes: A the longest hit is read, 1h is paid up to the last 1h breakpoint, 5m from there to the last one.
func TestMixedLifetimes(t *testing.T) {
	s := New(Options{})
	a, b, c, d := sized("a", 1100), sized("b", 100), sized("c", 200), sized("d", 300)
	long1 := sized("a", 1100, mark1h)
	usage(t, must(t, s, conv(modern, "", user(long1, sized("b", 100, mark1h), sized("c", 200, mark5m), d)), nil, start), 0, 200, 1200, 300)
	usage(t, must(t, s, conv(modern, "", user(long1, b, sized("c", 200, mark1h), sized("d", 300, mark5m))), nil, start), 1400, 300, 0, 0)
	at := start.Add(long) // the 5m entries are gone, those of 1h are not
	usage(t, must(t, s, conv(modern, "", user(a, b, c, sized("d", 300, mark1h))), nil, at), 1200, 0, 500, 0)
	usage(t, must(t, s, conv(modern, "", user(a, sized("b", 100, mark1h), sized("c", 200, mark5m), d)), nil, at), 1200, 200, 0, 300)
}

// TestMinimum: a prefix below the model's minimum is not cached, and that is no error.
func TestMinimum(t *testing.T) {
	for id, minimum := range map[string]int{
		"claude-fable-5-1": 512, "claude-fable-5-2": 512, "claude-mythos-5-2": 512, "claude-opus-5": 512, "claude-opus-5-5": 512,
		"claude-sonnet-5-5": 512, "claude-haiku-5-5": 512, "claude-opus-4-8": 1024, "claude-sonnet-5": 1024,
		"claude-sonnet-4-6": 1024, "claude-sonnet-4-5-20250929": 1024, "claude-sonnet-4-20250514": 1024, "claude-opus-4-1": 1024,
		"claude-opus-4-7": 2048, "claude-3-5-haiku-latest": 2048, "claude-opus-4-6": 4096, "claude-opus-4-5-20251101": 4096,
		"claude-haiku-4-5-20251001": 4096,
	} {
		s := New(Options{})
		usage(t, must(t, s, conv(id, "", user(sized("a", minimum-1, mark1h))), nil, start), 0, 0, 0, minimum-1)
		usage(t, must(t, s, conv(id, "", user(sized("a", minimum, mark1h))), nil, start), 0, 0, minimum, 0)
		// A breakpoint below the minimum counts for nothing, also for the price of what follows.
		body := conv(id, "", user(sized("b", 100, mark1h), sized("c", minimum, mark5m)))
		usage(t, must(t, s, body, nil, start), 0, minimum+100, 0, 0)
	}
}

// TestReadiness: an entry can be read once the first response has begun.
func TestReadiness(t *testing.T) {
	for _, policy := range []Policy{{}, {Refresh: RefreshAll, SkipBelow: true, Upgrade: true, NoLift: true}} {
		testReadiness(t, New(Options{Policy: policy}))
	}
}

func testReadiness(t *testing.T, s *Sim) {
	t.Helper()
	body := conv(modern, "", user(sized("a", 1100, mark5m)))
	usage(t, must(t, s, body, http.Header{simkit.HeaderDelay: {"2s"}}, start), 0, 1100, 0, 0)
	if !s.Holds(strings.Split(sized("a", 1100), `"`)[7], start) {
		t.Error("the entry is there while it cannot be read")
	}
	// A second request that comes too early pays too, and its answer begins later.
	usage(t, must(t, s, body, http.Header{simkit.HeaderDelay: {"3s"}}, start.Add(time.Second)), 0, 1100, 0, 0)
	usage(t, must(t, s, body, nil, start.Add(2*time.Second-1)), 0, 1100, 0, 0) // this answer begins at once
	usage(t, must(t, s, body, nil, start.Add(2*time.Second-1)), 1100, 0, 0, 0)
	if res := s.Call(body, http.Header{simkit.HeaderDelay: {"1h"}}, start); res.First != start.Add(simkit.MaxDelay) {
		t.Errorf("first byte at %v", res.First)
	}
}

// TestRefresh: which entries a read renews is open; at least the one that it hit.
func TestRefresh(t *testing.T) {
	system := func(marker string) string { return `"system":[` + sized("s", 1100, marker) + `],` }
	body := conv(modern, system(mark5m), user(sized("a", 100, mark5m)))
	deep := conv(modern, system(""), user(sized("a", 100, mark5m))) // the same without the breakpoint on system
	alone := conv(modern, system(mark5m), user(hi))
	for refresh, want := range map[Refresh]struct{ body, deep int }{
		RefreshHit: {0, 0}, RefreshMarks: {1100, 0}, RefreshAll: {1100, 1100},
	} {
		for between, want := range map[string]int{string(body): want.body, string(deep): want.deep} {
			s := New(Options{Policy: Policy{Refresh: refresh, SkipBelow: true}})
			must(t, s, body, nil, start)
			must(t, s, []byte(between), nil, start.Add(4*time.Minute))
			if n := s.Cached(body, start.Add(9*time.Minute)); n != 1200 {
				t.Errorf("refresh %d: the entry that was hit has %d tokens, want 1200", refresh, n)
			}
			if n := s.Cached(alone, start.Add(9*time.Minute)); n != want {
				t.Errorf("refresh %d: the entry below the hit has %d tokens, want %d", refresh, n, want)
			}
		}
	}
}

// TestBelowTheHit: whether a breakpoint before the hit gets its entry back is open.
func TestBelowTheHit(t *testing.T) {
	system := `"system":[` + sized("s", 1100, mark5m) + `],`
	body, alone := conv(modern, system, user(sized("a", 100, mark5m))), conv(modern, system, user(hi))
	for skip, want := range map[bool]int{false: 1100, true: 0} {
		s := New(Options{Policy: Policy{SkipBelow: skip}})
		for at := range 3 {
			must(t, s, body, nil, start.Add(time.Duration(at)*4*time.Minute))
		}
		if res := s.Requests()[2].Usage; res.Read != 1200 || res.Write5m != 0 {
			t.Errorf("billed %+v", res)
		}
		if n := s.Cached(alone, start.Add(8*time.Minute)); n != want {
			t.Errorf("skip %v: cached %d, want %d", skip, n, want)
		}
	}
}

// TestNoLift: where lifting does not work, a 1h breakpoint behind a 5m entry is paid for and useless after five minutes; it lives
// on as long as it is read in time, and no chain of lifts gets it beyond that. What was written at 1h as a whole lives for 1h.
func TestNoLift(t *testing.T) {
	a, b := sized("a", 1100), sized("b", 100)
	base := conv(modern, "", user(sized("a", 1100, mark5m)))
	lifted := conv(modern, "", user(a, sized("b", 100, mark1h)))
	further := conv(modern, "", user(a, b, sized("c", 100, mark1h)))
	s := New(Options{Policy: Policy{NoLift: true}})
	usage(t, must(t, s, base, nil, start), 0, 1100, 0, 0)
	usage(t, must(t, s, lifted, nil, start.Add(time.Minute)), 1100, 0, 100, 0)
	usage(t, must(t, s, lifted, nil, start.Add(6*time.Minute)), 1200, 0, 0, 0)
	usage(t, must(t, s, further, nil, start.Add(7*time.Minute)), 1200, 0, 100, 0)
	usage(t, must(t, s, further, nil, start.Add(12*time.Minute+1)), 0, 0, 1300, 0) // this one writes all of it
	usage(t, must(t, s, further, nil, start.Add(60*time.Minute)), 1300, 0, 0, 0)

	// In flight and before the hit, where an entry is made free of charge, it does not work either.
	s = New(Options{Policy: Policy{NoLift: true}})
	must(t, s, base, nil, start)
	must(t, s, conv(modern, "", user(a, sized("b", 100, mark5m))), http.Header{simkit.HeaderDelay: {"2s"}}, start)
	usage(t, must(t, s, lifted, nil, start.Add(time.Second)), 1100, 0, 100, 0)
	before := conv(modern, "", user(sized("d", 1100, mark1h), sized("b", 100, mark1h)))
	must(t, s, conv(modern, "", user(sized("d", 1100), sized("b", 100, mark5m))), nil, start)
	usage(t, must(t, s, before, nil, start.Add(2*time.Second)), 1200, 0, 0, 0)
	for _, body := range [][]byte{base, lifted, conv(modern, "", user(sized("d", 1100, mark5m)))} {
		if n := s.Cached(body, start.Add(time.Minute)); n == 0 {
			t.Errorf("nothing is cached after a minute: %.200s", body)
		}
		if n := s.Cached(body, start.Add(6*time.Minute)); n != 0 {
			t.Errorf("cached %d after six minutes", n)
		}
	}
}

// TestLift: what a 1h breakpoint does at and behind a 5m entry.
func TestLift(t *testing.T) {
	base := conv(modern, "", user(sized("a", 1100, mark5m)))
	same := conv(modern, "", user(sized("a", 1100, mark1h)))
	next := conv(modern, "", user(sized("a", 1100), sized("b", 100, mark1h)))
	for name, c := range map[string]struct {
		policy     Policy
		same, next int // cached after 6 minutes
	}{
		"plain": {Policy{}, 0, 1200}, "upgrade": {Policy{Upgrade: true}, 1100, 1200}, "no lift": {Policy{NoLift: true}, 0, 0},
	} {
		for body, want := range map[string]int{string(same): c.same, string(next): c.next} {
			s := New(Options{Policy: c.policy})
			must(t, s, base, nil, start)
			must(t, s, []byte(body), nil, start)
			if n := s.Cached([]byte(body), start.Add(6*time.Minute)); n != want {
				t.Errorf("%s: cached %d, want %d", name, n, want)
			}
		}
	}
}

// TestValues: what is cached are values, not bytes.
func TestValues(t *testing.T) {
	long := strings.Repeat("über \"alles\"\n/", 400)
	escape := strings.NewReplacer("ü", `\u00fc`, `"`, `\"`, "\n", `\n`, "/", `\/`).Replace(long)
	plain := strings.NewReplacer(`"`, `\"`, "\n", `\u000a`).Replace(long)
	call := `{"type":"tool_use","id":"a","name":"Read","input":{"path":"a","n":1e1,"on":true}}`
	old := func(content, call string) []byte {
		return conv(modern, `"tools":[{"name":"Read","input_schema":{"type":"object"}}],`, `{"role":"user","content":`+content+`}`,
			assistant(call), user(result("a", mark5m)))
	}
	text := `[{"type":"text","text":"` + escape + `"}]`
	base := old(text, call)
	for name, c := range map[string]struct {
		body []byte
		same bool
	}{
		"other escapes":            {old(`[{"type":"text","text":"`+plain+`"}]`, call), true},
		"a string":                 {old(`"`+escape+`"`, call), true},
		"text before type":         {old(`[ {"text" : "`+escape+`", "type":"text"} ]`, call), true},
		"a marker":                 {old(`[{"type":"text","cache_control":{"type":"ephemeral"},"text":"`+escape+`"}]`, call), true},
		"another number form":      {old(text, strings.Replace(call, "1e1", "10.0", 1)), true},
		"an integer":               {old(text, strings.Replace(call, "1e1", "10", 1)), false},
		"other order of arguments": {old(text, `{"type":"tool_use","id":"a","name":"Read","input":{"n":1e1,"path":"a","on":true}}`), false},
		"other order of members":   {old(text, strings.Replace(call, `"type":"tool_use","id":"a"`, `"id":"a","type":"tool_use"`, 1)), false},
		"a name twice":             {old(text, strings.Replace(call, `"path":"a"`, `"path":"b","path":"a"`, 1)), true},
		"another argument":         {old(text, strings.Replace(call, `"path":"a"`, `"path":"b"`, 1)), false},
		"one blank":                {old(`"`+escape+` "`, call), false},
		"two blocks":               {old(`[{"type":"text","text":"`+escape+`"},{"type":"text","text":"x"}]`, call), false},
		"neighbours": {conv(modern, `"tools":[{"name":"Read","input_schema":{"type":"object"}}],`, `{"role":"user","content":`+text+`}`,
			assistant(call), user(result("a")), user(sized("x", 9, mark5m))), true},
		"another role's text": {conv(modern, `"tools":[{"name":"Read","input_schema":{"type":"object"}}],"system":`+text+`,`,
			user(hi), assistant(call), user(result("a", mark5m))), false},
	} {
		s := New(Options{})
		if must(t, s, base, nil, start); s.Requests()[0].Usage.Write5m == 0 {
			t.Fatal("the base is not cached")
		}
		if n := s.Cached(c.body, start); n > 0 != c.same {
			t.Errorf("%s: cached %d tokens, want the same: %v", name, n, c.same)
		}
	}
}

// TestDependencies: what a cached prefix depends on besides its values.
func TestDependencies(t *testing.T) {
	tools := `"tools":[{"name":"Read","input_schema":{},"description":"` + strings.Repeat("x", 4500) + `"` + mark5m + `}],`
	system := `"system":[` + sized("s", 1100, mark5m) + `],`
	body := func(model, more string, content ...string) []byte {
		return conv(model, tools+system+more, user(append(content, sized("a", 1100, mark5m))...))
	}
	s := New(Options{})
	res := must(t, s, body(modern, ""), nil, start)
	all, head := res.Prompt, res.Prompt-1100
	image := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
	for name, c := range map[string]struct {
		body []byte
		want int
	}{
		"nothing":        {body(modern, `"metadata":{"user_id":"x"},"temperature":1,"tool_choice":{"type":"auto"},`), all},
		"stream":         {body(modern, `"stream":true,`), all},
		"model":          {body("claude-sonnet-4-6", ""), 0},
		"tool_choice":    {body(modern, `"tool_choice":{"type":"none"},`), head},
		"parallel calls": {body(modern, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},`), head},
		"thinking":       {body(modern, `"thinking":{"type":"enabled","budget_tokens":2000},`), head},
		"effort":         {body(modern, `"output_config":{"effort":"low"},`), head},
		"images":         {conv(modern, tools+system, user(sized("a", 1100, mark5m), image)), head},
		"speed":          {body(modern, `"speed":"fast",`), head - 1100},
		"system":         {conv(modern, tools+`"system":"x",`, user(sized("a", 1100, mark5m))), head - 1100},
		"tools":          {conv(modern, system, user(sized("a", 1100, mark5m))), 0},
	} {
		if n := s.Cached(c.body, start); n != c.want {
			t.Errorf("%s: cached %d, want %d", name, n, c.want)
		}
	}
	shown := func(display string) []byte {
		return body(modern, `"thinking":{"type":"adaptive"`+display+`},`)
	}
	must(t, s, shown(""), nil, start)
	for _, more := range []string{`,"display":"omitted"`, `,"block_binding":{"prefix_mismatch_behavior":"drop_block"}`} {
		if n := s.Cached(shown(more), start); n != all {
			t.Errorf("thinking with %s: cached %d, want %d", more, n, all)
		}
	}
}

// TestOutsideThePrompt: deferred tools enter the prompt where they are named; the attribution block never does.
func TestOutsideThePrompt(t *testing.T) {
	const tool, deferred = `{"name":"a","input_schema":{}}`, `,{"name":"b","input_schema":{"x":%d},"defer_loading":true}`
	bill := func(version int) string {
		return fmt.Sprintf(`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=%d"},{"type":"text","text":"s"}],`, version)
	}
	body := func(tools, system string, messages ...string) []byte {
		return conv(modern, `"tools":[`+tools+`],`+system, messages...)
	}
	turn := user(sized("a", 1100, mark5m))
	s := New(Options{})
	first := must(t, s, body(tool, bill(1), turn), nil, start)
	changed := body(tool+fmt.Sprintf(deferred, 1), bill(2), turn)
	if n := s.Cached(changed, start); n != first.Prompt {
		t.Errorf("with a deferred tool and another version %d tokens are cached, want %d", n, first.Prompt)
	}
	found := `{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"b"}]` + mark5m + `}`
	loop := []string{user(sized("a", 1100)), assistant(use("t")), user(found)}
	with := must(t, s, body(tool+fmt.Sprintf(deferred, 1), bill(1), loop...), nil, start)
	if n := s.Cached(body(tool+fmt.Sprintf(deferred, 1), bill(1), loop...), start); n != with.Prompt {
		t.Errorf("a named tool: cached %d, want %d", n, with.Prompt)
	}
	if n := s.Cached(body(tool+fmt.Sprintf(deferred, 2), bill(1), loop...), start); n != first.Prompt {
		t.Errorf("another tool of that name: cached %d, want %d", n, first.Prompt)
	}
	twice := slices.Concat(loop[:2], []string{user(strings.Replace(found, `}]`, `},{"type":"tool_reference","tool_name":"b"}]`, 1))})
	second := s.tokens(len("typetool_resulttool_use_idtcontent") + 2*len("typetool_referencetool_nameb"))
	if n, once := must(t, s, body(tool+fmt.Sprintf(deferred, 1), bill(1), twice...), nil, start).Prompt, with.Prompt; n-once !=
		second-s.tokens(len("typetool_resulttool_use_idtcontenttypetool_referencetool_nameb")) {
		t.Errorf("a tool that is named twice weighs %d tokens more", n-once)
	}
	without := must(t, s, body(tool, bill(1), loop...), nil, start)
	if without.Prompt >= with.Prompt {
		t.Errorf("the named tool weighs nothing: %d, %d", without.Prompt, with.Prompt)
	}
}

func TestAutomaticCaching(t *testing.T) {
	const auto = `"cache_control":{"type":"ephemeral","ttl":"1h"},`
	s := New(Options{})
	usage(t, must(t, s, conv(modern, auto, user(sized("a", 1100), sized("b", 50))), nil, start), 0, 0, 1150, 0)
	marked := user(sized("a", 1100), sized("b", 50, mark1h)) // the same breakpoint twice is one
	usage(t, must(t, s, conv(modern, auto, marked), nil, start), 1150, 0, 0, 0)
	same := conv(modern, auto, user(sized("a", 1200)), assistant(hi), user(sized("a", 1200))) // one breakpoint, on the last
	res := must(t, s, same, nil, start)
	usage(t, res, 0, 0, res.Prompt, 0)
	if n := len(s.Requests()[2].Live); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	// A prefill that ends in thinking cannot carry it: the block before does.
	old := conv(oldest, auto, user(sized("a", 1100)), assistant(thinking("so", "Eu8B")))
	usage(t, must(t, s, old, nil, start), 0, 0, 1100, s.tokens(len("typethinkingthinkingsosignatureEu8B")))
}

// TestNestedMarkers: one on a block inside a result caches nothing.
func TestNestedMarkers(t *testing.T) {
	s := New(Options{})
	inner := `{"type":"tool_result","tool_use_id":"t","content":[` + sized("x", 1100, mark5m) + `]}`
	res := must(t, s, conv(modern, "", user(hi), assistant(use("t")), user(inner)), nil, start)
	usage(t, res, 0, 0, 0, res.Prompt)
	outer := strings.TrimSuffix(inner, "}") + mark5m + "}"
	must(t, s, conv(modern, "", user(hi), assistant(use("t")), user(outer)), nil, start)
	bare := strings.Replace(outer, mark5m, "", 1)
	if n := s.Cached(conv(modern, "", user(hi), assistant(use("t")), user(bare)), start); n != res.Prompt {
		t.Errorf("without the marker inside %d tokens are cached, want %d", n, res.Prompt)
	}
}

// TestWorkspaces: an API key sees only what it cached itself.
func TestWorkspaces(t *testing.T) {
	s := New(Options{})
	body := conv(modern, "", user(sized("a", 1100, mark5m)))
	a, b := http.Header{"X-Api-Key": {"a"}}, http.Header{"Authorization": {"Bearer b"}}
	usage(t, must(t, s, body, a, start), 0, 1100, 0, 0)
	usage(t, must(t, s, body, b, start), 0, 1100, 0, 0)
	usage(t, must(t, s, body, a, start), 1100, 0, 0, 0)
	usage(t, must(t, s, body, http.Header{"X-Api-Key": {"b"}}, start), 1100, 0, 0, 0)
	if log := s.Requests(); len(log[1].Live) != 1 {
		t.Errorf("one workspace sees the entries of another: %+v", log[1].Live)
	}
}

func TestFailuresTouchNoCache(t *testing.T) {
	s := New(Options{})
	body := conv(modern, "", user(sized("a", 1100, mark5m)))
	must(t, s, body, nil, start)
	for _, status := range []string{"400", "401", "403", "404", "413", "429", "500", "504", "529"} {
		res := s.Call(body, http.Header{simkit.HeaderStatus: {status}}, start.Add(4*time.Minute))
		if strconv.Itoa(res.Status) != status || res.Err == nil || res.Usage != (Usage{}) {
			t.Errorf("x-sim-status %s: %+v", status, res)
		}
	}
	if s.Cached(body, start.Add(short+1)) != 0 {
		t.Error("a failed request renewed an entry")
	}
	if res := s.Call(body, http.Header{simkit.HeaderStatus: {"200"}}, start); res.Status != 400 {
		t.Errorf("x-sim-status 200: %+v", res)
	}
}

// TestHolds: an exact text in a live entry, wherever it stands.
func TestHolds(t *testing.T) {
	s := New(Options{})
	read := func(marker string) string {
		return `{"type":"tool_result","tool_use_id":"t","content":"1\tpackage held"` + marker + `}`
	}
	held := func(tail string) []byte {
		return conv(modern, "", user(sized("a", 1100, mark5m)), assistant(use("t")), user(read(tail)))
	}
	must(t, s, held(""), nil, start)
	if s.Holds("1\tpackage held", start) {
		t.Error("what follows the last breakpoint is not cached")
	}
	must(t, s, held(mark5m), nil, start)
	for text, want := range map[string]bool{"1\tpackage held": true, "package held": false, "a.go": true, "b.go": false} {
		if got := s.Holds(text, start.Add(short)); got != want {
			t.Errorf("holds %q: %v, want %v", text, got, want)
		}
	}
	if s.Holds("1\tpackage held", start.Add(short+1)) {
		t.Error("a dead entry holds nothing")
	}
}

func TestPreWarming(t *testing.T) {
	s := New(Options{})
	body := conv(modern, "", user(sized("a", 1100, mark5m)))
	res := must(t, s, []byte(strings.Replace(string(body), `"max_tokens":100`, `"max_tokens":0`, 1)), nil, start)
	if res.Usage != (Usage{Write5m: 1100}) || len(res.Content) != 0 || res.StopReason != "max_tokens" {
		t.Errorf("%+v", res)
	}
	usage(t, must(t, s, body, nil, start), 1100, 0, 0, 0)
}

func TestCost(t *testing.T) {
	s := New(Options{})
	for model, rho := range map[string]float64{
		"claude-fable-5-2": 0.025, "claude-mythos-5-1": 0.025, "claude-opus-5-5": 0.05, "claude-sonnet-5-5": 0.05,
		"claude-haiku-5-5": 0.1, "claude-opus-5": 0.1, "claude-sonnet-4-6": 0.1,
	} {
		rec := Received{Model: model, Usage: Usage{Input: 7, Read: 1000, Write5m: 400, Write1h: 30, Output: 99}}
		if got, want := s.Cost(rec), 7+rho*1000+500+60; got != want {
			t.Errorf("%s: %v, want %v", model, got, want)
		}
	}
	if got := s.Cost(Received{Status: 529}); got != 0 {
		t.Errorf("a refused request costs %v", got)
	}
}

// TestSweep: dead entries do not pile up.
func TestSweep(t *testing.T) {
	w := &workspace{entries: map[digest]*entry{}, fresh: sweepAt}
	for i := range sweepAt {
		w.entries[simkit.Sum(fmt.Append(nil, i))] = &entry{ttl: short, start: start}
	}
	one := &block{kind: "text", chars: 30}
	w.call(&prompt{blocks: []*block{one}, prefix: []digest{{1}}, size: []int{9}, position: []int{0}, marks: []point{{0, short}}}, 1,
		Policy{}, start.Add(long), start.Add(long))
	if len(w.entries) != 1 || w.fresh != 0 {
		t.Errorf("%d entries are left", len(w.entries))
	}
}
