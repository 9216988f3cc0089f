package bedrock

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// turn is one request of a billing case.
type turn struct {
	after time.Duration // the turn before
	body  []byte
	want  Usage // without output
}

// TestBilling: what requests of Converse are billed, computed by hand.
func TestBilling(t *testing.T) {
	a, b := words(sized("a", 1500)), words(sized("b", 300))
	image := `{"image":{"format":"png","source":{"bytes":"eA=="}}}`
	for _, c := range []struct {
		name  string
		model string
		turns []turn
	}{
		{"without cachePoint", sonnet, []turn{{0, conv("", says("user", a)), Usage{Input: 1500}}, {0, conv("", says("user", a)), Usage{Input: 1500}}}},
		{"the same again", sonnet, []turn{
			{0, conv("", says("user", a, point, b)), Usage{Input: 300, Write5m: 1500}},
			{5 * time.Minute, conv("", says("user", a, point, b)), Usage{Input: 300, Read: 1500}},
			{5*time.Minute + 1, conv("", says("user", a, point, b)), Usage{Input: 300, Write5m: 1500}},
		}},
		{"for an hour", sonnet, []turn{
			{0, conv("", says("user", a, pointLong, b, point)), Usage{Write1h: 1500, Write5m: 300}},
			{time.Hour, conv("", says("user", a, pointLong, b, point)), Usage{Read: 1500, Write5m: 300}},
		}},
		{"below the minimum", opus, []turn{
			{0, conv("", says("user", words(sized("a", 4095)), point)), Usage{Input: 4095}},
			{0, conv("", says("user", words(sized("a", 4095)), point)), Usage{Input: 4095}},
		}},
		{"the minimum", opus, []turn{
			{0, conv("", says("user", words(sized("a", 4096)), point)), Usage{Write5m: 4096}},
			{0, conv("", says("user", words(sized("a", 4096)), point)), Usage{Read: 4096}},
		}},
		{"an image in front", sonnet, []turn{
			{0, conv("", says("user", image, a, point)), Usage{Write5m: 1500 + 1667}}, // 6000 characters
			{0, conv("", says("user", image, a, point)), Usage{Read: 1500 + 1667}},
		}},
		{"the system prompt", old, []turn{
			{0, conv(`"system":[`+a+`,`+point+`],`, says("user", words(sized("x", 10)))), Usage{Input: 10, Write5m: 1500}},
			{0, conv(`"system":[`+a+`,`+point+`],`, says("user", words(sized("y", 10)))), Usage{Input: 10, Read: 1500}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, when := New(Options{}), start
			for i, n := range c.turns {
				when = when.Add(n.after)
				cached := s.Cached(at(c.model, "converse"), n.body, when)
				if got := input(t, s, at(c.model, "converse-stream"), n.body, when); got != n.want || cached != got.Read {
					t.Errorf("turn %d: %+v with %d cached, want %+v", i+1, got, cached, n.want)
				}
			}
		})
	}
}

// TestBothAPIsSayTheSame: what InvokeModel left, Converse reads, whatever kind of block it is.
func TestBothAPIsSayTheSame(t *testing.T) {
	long := sized("a", 1500)
	first := inv(`"system":[{"type":"text","text":"be brief"}],"tools":[{"name":"read","description":"d","input_schema":{"type":"object"}}],`,
		`{"role":"user","content":"`+long+`"}`,
		`{"role":"assistant","content":[{"type":"text","text":"yes"},{"type":"tool_use","id":"a","name":"read","input":{"b":1,"a":2}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}],"is_error":true,"cache_control":{"type":"ephemeral"}}]}`)
	second := conv(`"toolConfig":{"tools":[{"toolSpec":{"inputSchema":{"json":{"type":"object"}},"description":"d","name":"read"}}]},"system":[{"text":"be brief"}],`,
		says("user", words(long)),
		says("assistant", words("yes"), `{"toolUse":{"name":"read","input":{"b":1,"a":2},"toolUseId":"a"}}`),
		says("user", `{"toolResult":{"status":"error","toolUseId":"a","content":[{"text":"x"}]}}`, point))
	s := New(Options{})
	wrote := input(t, s, at(sonnet, "invoke"), first, start)
	if got := input(t, s, at(sonnet, "converse"), second, start); wrote.Write5m == 0 || got != (Usage{Read: wrote.Write5m}) {
		t.Errorf("wrote %+v, then %+v", wrote, got)
	}
	other := strings.Replace(string(second), `"b":1,"a":2`, `"a":2,"b":1`, 1)
	if got := input(t, s, at(sonnet, "converse"), []byte(other), start); got.Read != 0 {
		t.Errorf("the order of arguments does not count: %+v", got)
	}
}

// TestEveryBlockIsAPosition: a run of calls or of results is no single position on Bedrock, so that ten calls with their results
// are out of reach.
func TestEveryBlockIsAPosition(t *testing.T) {
	for calls, want := range map[int]bool{9: true, 10: false} {
		var uses, answers []string
		for i := range calls {
			id := fmt.Sprintf("t%d", i)
			uses, answers = append(uses, use(id)), append(answers, result(id, "x"))
		}
		s, a := New(Options{}), words(sized("a", 1500))
		input(t, s, at(sonnet, "converse"), conv(tools, says("user", a, point)), start)
		after := conv(tools, says("user", a), says("assistant", uses...), says("user", append(answers, point)...))
		if got := input(t, s, at(sonnet, "converse"), after, start); got.Read > 0 != want {
			t.Errorf("%d calls later: %+v", calls, got)
		}
	}
}

// TestAccountsApart: nobody reads what another key wrote, or the same key in another region; a new signature changes nothing.
func TestAccountsApart(t *testing.T) {
	signed := func(key, day, region string) http.Header {
		return http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=" + key + "/" + day + "/" + region + "/bedrock/aws4_request, SignedHeaders=host, Signature=" + day}}
	}
	s, body := New(Options{}), conv("", says("user", words(sized("a", 1500)), point))
	for i, c := range []struct {
		header http.Header
		want   int
	}{
		{signed("A", "20261130", "us-east-1"), 0},
		{signed("A", "20261201", "us-east-1"), 1500},
		{signed("A", "20261130", "eu-west-1"), 0},
		{signed("B", "20261130", "us-east-1"), 0},
		{http.Header{"Authorization": {"Bearer A"}}, 0},
		{http.Header{"Authorization": {"Bearer A"}}, 1500},
	} {
		if got := must(t, s, at(sonnet, "converse"), body, c.header, start).Usage.Read; got != c.want {
			t.Errorf("request %d reads %d, want %d", i+1, got, c.want)
		}
	}
}

// TestNotReadableBeforeTheAnswerBegins: two requests at once both pay.
func TestNotReadableBeforeTheAnswerBegins(t *testing.T) {
	s, body := New(Options{}), conv("", says("user", words(sized("a", 1500)), point))
	res := must(t, s, at(sonnet, "converse"), body, http.Header{simkit.HeaderDelay: {"2s"}}, start)
	if !res.First.Equal(start.Add(2 * time.Second)) {
		t.Errorf("first byte at %v", res.First)
	}
	if got := input(t, s, at(sonnet, "converse"), body, start.Add(time.Second)).Read; got != 0 {
		t.Errorf("%d read before it could be", got)
	}
	if !s.Holds(sized("a", 1500), start) || s.Holds("nobody said so", start) {
		t.Error("the cache holds something else")
	}
	s.Reset()
	if got := input(t, s, at(sonnet, "converse"), body, start.Add(time.Second)).Read; got != 0 || len(s.Requests()) != 1 {
		t.Errorf("%d read after a reset, %d requests", got, len(s.Requests()))
	}
}

// TestPrices: a region costs a tenth more from Claude 4.5 on; units do not.
func TestPrices(t *testing.T) {
	u := Usage{Input: 1_000_000, Read: 1_000_000, Write5m: 1_000_000, Write1h: 1_000_000, Output: 1_000_000}
	for id, want := range map[string]float64{
		sonnet:                         (3 + 0.3 + 3.75 + 6 + 15) * 1.1,
		bought:                         (3 + 0.3 + 3.75 + 6 + 15) * 1.1,
		opus:                           5 + 0.5 + 6.25 + 10 + 25,
		old:                            3 + 0.3 + 3.75 + 6 + 15,
		"amazon.nova-pro-v1:0":         0,
		"anthropic.claude-haiku-x":     0,
		"us.anthropic.claude-opus-4-7": (5 + 0.5 + 6.25 + 10 + 25) * 1.1,
	} {
		if got := Bill(id, u); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s costs %v, want %v", id, got, want)
		}
	}
	if got := Units(sonnet, u); math.Abs(got-(1+0.1+1.25+2+5)*1e6) > 1e-3 {
		t.Errorf("%v units", got)
	}
	rec := Received{Model: sonnet, Usage: u}
	if got := New(Options{}).Cost(rec); math.Abs(got-(1+0.1+1.25+2)*1e6) > 1e-3 {
		t.Errorf("input costs %v units", got)
	}
}
