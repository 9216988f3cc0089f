package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/gen/gentest"
)

// parse reads a body that must be accepted, and checks every span of it.
func parse(t rapid.TB, body []byte) *Index {
	t.Helper()
	return parseAs(t, body, Anthropic)
}

func parseAs(t rapid.TB, body []byte, f Format) *Index {
	t.Helper()
	ix, err := Parse(body, f)
	if err != nil {
		t.Fatalf("%v in %s", err, clip(body))
	}
	check(t, ix)
	return ix
}

// strange are conversations of every shape, written in every way.
func strange() *rapid.Generator[*gen.Conversation] {
	return gentest.Conversation(gen.Options{Strange: true, Wild: true, ResultBytes: 60}, 5)
}

func TestParseEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parse(t, strange().Draw(t, "conversation").Body()).Release()
	})
}

// asContent is a body of one message with %s as its content.
const asContent = `{"messages":[{"role":"user","content":%s}]}`

// bodies returns the lines of a file of testdata/bodies.
func bodies(t rapid.TB, file string) (all []string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/bodies/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.TrimSuffix(line, "\n"))
		}
	}
	if len(all) == 0 {
		t.Fatalf("no bodies in %s", file)
	}
	return all
}

func TestParseRejects(t *testing.T) {
	odd := []string{"", " ", "\ufeff" + fmt.Sprintf(asContent, `"a"`), "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]\v}"}
	for _, s := range []string{"\t", "\n", "\x00", "\x1f", "1234567\n", "12345678\n", "123456789abcdef\x1f"} {
		odd = append(odd, fmt.Sprintf(asContent, `"`+s+`"`))
	}
	for _, body := range append(odd, bodies(t, "rejected.txt")...) {
		if _, err := Parse([]byte(body), Anthropic); err == nil {
			t.Errorf("accepted %q", body)
		} else if strings.Contains(err.Error(), "user") {
			t.Errorf("the error quotes the body: %v", err)
		}
	}
	if _, err := Parse([]byte(fmt.Sprintf(asContent, `"a"`)), UnknownFormat); !errors.Is(err, ErrFormat) {
		t.Errorf("a format without a reader: %v", err)
	}
}

func TestParseAccepts(t *testing.T) {
	odd := []string{" \t\r\n" + fmt.Sprintf(asContent, `"a"`) + " \t\r\n", fmt.Sprintf(asContent, "\"\xff\xfe\x7f\"")}
	for _, body := range append(odd, bodies(t, "accepted.txt")...) {
		parse(t, []byte(body)).Release()
	}
}

// A call that stands behind its result is not what it answers, and an id that is used again belongs to its nearest call.
func TestJoin(t *testing.T) {
	body := func(blocks ...string) []byte {
		var b strings.Builder
		for i, block := range blocks {
			typ, id, _ := strings.Cut(block, " ")
			if i > 0 {
				b.WriteByte(',')
			}
			if typ == "call" {
				fmt.Fprintf(&b, `{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"Read","input":{}}]}`, id)
			} else {
				fmt.Fprintf(&b, `{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"x"}]}`, id)
			}
		}
		return []byte(`{"messages":[` + b.String() + `]}`)
	}
	for _, c := range []struct {
		blocks    string
		answers   []int32 // of each result
		ambiguous []bool
	}{
		{"call a,result a,call b,result b", []int32{0, 1}, []bool{false, false}},
		{"call a,call b,result b,result a", []int32{1, 0}, []bool{false, false}},
		{"result a,call a", []int32{-1}, []bool{false}},
		{"result z,call a,result a", []int32{-1, 0}, []bool{false, false}},
		{"call a,result a,call a,result a", []int32{0, 1}, []bool{true, true}},
		{"call a,result a,result a,call b,result b", []int32{0, 0, 1}, []bool{true, true, false}},
		{"call a,result a,call b,call b", []int32{0}, []bool{false}},
		{"call a,call b,call c,call d,call e,call f,call g,call h,call i,call j,result a", []int32{0}, []bool{false}},
	} {
		ix := parse(t, body(strings.Split(c.blocks, ",")...))
		for i := range ix.Results {
			r := &ix.Results[i]
			if r.Call != c.answers[i] || r.Ambiguous != c.ambiguous[i] {
				t.Errorf("%s: result %d answers %d, ambiguous %v", c.blocks, i, r.Call, r.Ambiguous)
			}
			if r.Call >= 0 && ix.Answer(r.Call).Call != r.Call {
				t.Errorf("%s: call %d is answered by a result of another", c.blocks, r.Call)
			}
		}
		for call := range ix.Calls {
			answered := slices.ContainsFunc(ix.Results, func(r Result) bool { return r.Call == int32(call) })
			if (ix.Answer(int32(call)) != nil) != answered {
				t.Errorf("%s: call %d is answered: %v", c.blocks, call, !answered)
			}
		}
		ix.Release()
	}
}

// Blocks are numbered in the provider's order, wherever tools and system stand in the body.
func TestOrder(t *testing.T) {
	ix := parse(t, []byte(`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking"},`+
		`{"type":"tool_use","id":"\u0069","name":"Re\u0061d","input":{}},{"type":"text","text":""}]},{"role":"user","content":[`+
		`{"type":"tool_result","tool_use_id":"i","cache_control":null},{"type":"text","text":"b","cache_control":{}}]}],`+
		`"system":[{"type":"text","text":"s","cache_control":{"ttl":"1h"}}],"tools":[{"name":"t"}]}`))
	defer ix.Release()
	markable := []bool{true, true, false, false, true, false, false, true}
	for n := range int32(ix.Len()) {
		b := ix.Seq(n)
		if b.Markable() != markable[n] {
			t.Errorf("block %d may carry a breakpoint: %v", n, b.Markable())
		}
		if b.Msg >= 0 && ix.Seq(ix.SeqOf(n-int32(len(ix.Head)))) != b {
			t.Errorf("block %d has another number", n)
		}
		if b.Counts() == (b.Kind == Thinking) {
			t.Errorf("block %d counts: %v", n, b.Counts())
		}
	}
	if ix.Seq(0).Kind != Tool || ix.Seq(1).Msg != InSystem || ix.Markers[0].Seq != 1 || ix.Markers[1].Seq != 7 {
		t.Errorf("order: %+v", ix.Markers)
	}
	if ix.LastAssistant() != 1 || ix.LastTurn() != 1 || ix.ToolName(&ix.Calls[0]) != "Read" || ix.CallID(&ix.Results[0]) != "i" {
		t.Error("last assistant, last turn, tool or call id")
	}
	if ix.Format.String() != "anthropic.messages" || UnknownFormat.String() != "unknown" {
		t.Error("names of formats")
	}
	silent := parse(t, fmt.Appendf(nil, asContent, `"a"`))
	defer silent.Release()
	if silent.LastAssistant() != -1 || silent.LastTurn() != 0 {
		t.Error("nobody said anything")
	}
}

func TestTruncatedAndTrailed(t *testing.T) {
	for seed := range uint64(6) {
		m := gen.New(rand.New(rand.NewPCG(seed, 0)), gen.Options{Strange: true, Wild: true, ResultBytes: 20})
		body := m.Conversation(1).Body()
		for n := range body {
			if _, err := Parse(body[:n], Anthropic); err == nil && n <= bytes.LastIndexByte(body, '}') {
				t.Fatalf("accepted the first %d bytes of %s", n, body)
			}
		}
		for _, more := range []string{"x", "{}", ",", "\x00", "\"", "]"} {
			if _, err := Parse([]byte(string(body)+more), Anthropic); err == nil {
				t.Fatalf("accepted %q behind a body", more)
			}
		}
	}
}

// mutate changes a body at random places.
func mutate(t *rapid.T, body []byte) []byte {
	body = slices.Clone(body)
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			body[at] = rapid.SampledFrom([]byte("\"\\{}[],:0-+eEu.tfn/ \n\x00\x1f\x7f\xff")).Draw(t, "byte")
		case 1:
			body[at] = rapid.Byte().Draw(t, "any")
		case 2:
			body = slices.Delete(body, at, min(at+rapid.IntRange(1, 4).Draw(t, "length"), len(body)))
		default:
			body = slices.Insert(body, at, body[at:min(at+rapid.IntRange(1, 40).Draw(t, "length"), len(body))]...)
		}
		if len(body) == 0 {
			return body
		}
	}
	return body
}

// What Parse accepts is JSON, and every span of it holds, however the body came about.
func TestMutated(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		body := gentest.Conversation(gen.Options{Strange: true, Wild: true, ResultBytes: 20}, 2).Draw(t, "conversation").Body()
		for range 20 {
			m := mutate(t, body)
			ix, err := Parse(m, Anthropic)
			switch {
			case err == nil:
				accepted++
				check(t, ix)
				ix.Release()
			case json.Valid(m) && bytes.Equal(m, body):
				t.Fatalf("refused a body that it accepts: %v", err)
			}
		}
	})
	if accepted == 0 {
		t.Error("no changed body was accepted")
	}
}

// allocated is the number of bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Hostile shapes are refused or read with memory in proportion to the body; nothing here may take more than one pass.
func TestHostile(t *testing.T) {
	many := func(n int, element string) string { return strings.Repeat(element+",", n-1) + element }
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	const (
		inBody  = `{"messages":[{"role":"user","content":"a"}]%s}`
		inBlock = `{"messages":[{"role":"user","content":[{"type":"text","text":"a"%s}]}]}`
	)
	const lots = 200_000 // over every limit
	calls := many(MaxBlocks/2, `{"type":"tool_use","id":"a","name":"n","input":{}}`)
	results := many(MaxBlocks/2, `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"b","cache_control":{}}]}`)
	for _, c := range []struct {
		name, body string
		ok         bool
	}{
		{"depth of the limit", fmt.Sprintf(inBody, `,"x":`+deep(MaxDepth-1)), true},
		{"depth over the limit", fmt.Sprintf(inBody, `,"x":`+deep(MaxDepth)), false},
		{"depth", fmt.Sprintf(inBody, `,"x":`+deep(10_000)), false},
		{"depth in a block", fmt.Sprintf(inBlock, `,"x":`+deep(10_000)), false},
		{"depth in arguments", fmt.Sprintf(asContent, `[{"type":"tool_use","id":"a","name":"n","input":`+deep(10_000)+`}]`), false},
		{"depth in a breakpoint", fmt.Sprintf(inBlock, `,"cache_control":{"x":`+deep(10_000)+`}`), false},
		{"open brackets", strings.Repeat("[", lots), false},
		{"open objects", strings.Repeat(`{"messages":`, lots), false},
		{"blocks at the limit", fmt.Sprintf(asContent, "["+many(MaxBlocks, "{}")+"]"), true},
		{"blocks over the limit", fmt.Sprintf(asContent, "["+many(MaxBlocks+1, "{}")+"]"), false},
		{"empty blocks", fmt.Sprintf(asContent, "["+many(1_000_000, "{}")+"]"), false},
		{"tools", fmt.Sprintf(inBody, `,"tools":[`+many(lots, "{}")+"]"), false},
		{"system blocks", fmt.Sprintf(inBody, `,"system":[`+many(lots, "{}")+"]"), false},
		{"messages", `{"messages":[` + many(lots, `{"role":"user","content":[]}`) + "]}", false},
		{"parts of a result", fmt.Sprintf(asContent, `[{"type":"tool_result","tool_use_id":"a","content":[`+many(lots, "{}")+"]}]"), false},
		{"breakpoints", fmt.Sprintf(inBlock, `,"x":[`+many(lots, `{"cache_control":null}`)+"]"), false},
		{"members", fmt.Sprintf(inBody, ","+many(lots, `"x":1`)), true},
		{"escaped keys", fmt.Sprintf(inBody, ","+many(lots/10, `"\u0078":1`)), true},
		{"one id", `{"messages":[{"role":"assistant","content":[` + calls + `]},{"role":"user","content":[` + results + `]}]}`, true},
		{"30 MB of text", fmt.Sprintf(asContent, `"`+strings.Repeat("0123456789", 3_000_000)+`"`), true},
		{"escapes", fmt.Sprintf(asContent, `"`+strings.Repeat(`\n\ud800`, lots)+`"`), true},
		{"white space", fmt.Sprintf(inBlock, strings.Repeat(" ", lots)+","+strings.Repeat(" ", lots)+`"cache_control":{}`+strings.Repeat(" ", lots)), true},
	} {
		body := []byte(c.body)
		h := NewHasher(make([]byte, 32))
		used := allocated(func() {
			ix, err := Parse(body, Anthropic)
			if (err == nil) != c.ok {
				t.Errorf("%s: %v", c.name, err)
			}
			if err == nil {
				ix.Digest(h)
				ix.Release()
			}
		})
		if limit := 8*len(body) + MaxBlocks*512; used > limit {
			t.Errorf("%s: %d bytes for a body of %d", c.name, used, len(body))
		}
	}
	if _, err := Parse(make([]byte, MaxBytes+1), Anthropic); err == nil {
		t.Error("accepted a body over the limit")
	}
}

// An index from the pool carries nothing over, whoever used it before.
func TestPool(t *testing.T) {
	h := NewHasher([]byte("0123456789abcdef0123456789abcdef"))
	bodies := rapid.SliceOfN(strange(), 8, 8).Example(1)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 100 {
				body := bodies[(w+i)%len(bodies)].Body()
				pooled, err := Parse(body, Anthropic)
				if err != nil {
					t.Error(err)
					return
				}
				pooled.Digest(h)
				for c := range pooled.Calls {
					pooled.CallFacts(int32(c))
				}
				fresh := &Index{}
				fresh.reset(body, Anthropic)
				if err := readBody(fresh, nil); err != nil {
					t.Error(err)
					return
				}
				fresh.Digest(h)
				if diff := gocmp.Diff(fresh.Messages, pooled.Messages, gocmp.AllowUnexported(Message{})); diff != "" || fresh.Key != pooled.Key {
					t.Error("digests depend on what the pool held before: " + diff)
				}
				pooled.Release()
			}
		})
	}
	wg.Wait()
}

// An index that is released twice is not given out twice.
func TestReleasedTwice(t *testing.T) {
	body := fmt.Appendf(nil, asContent, `"a"`)
	ix := parse(t, body)
	ix.Release()
	ix.Release()
	a, b := parse(t, body), parse(t, body)
	if a == b {
		t.Error("two bodies share an index")
	}
	a.Release()
	b.Release()
}
