package simprovider

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestParserForgets: a parser keeps no more than it may, and what it says does not depend on what it keeps.
func TestParserForgets(t *testing.T) {
	p := newParser()
	body := conv(modern, `"system":"s","tools":[],`, user(hi))
	for range 2 {
		if _, err := p.parse(body); err != nil {
			t.Fatal(err)
		}
	}
	kept := p.size
	if kept == 0 || kept > len(body) {
		t.Errorf("%d bytes are kept of a body of %d", kept, len(body))
	}
	p.size = keptBytes
	if _, err := p.parse(conv(modern, `"metadata":{"n":1},`, user(hi), user(sized("new", 50)))); err != nil {
		t.Fatal(err)
	}
	if p.size > len(body)+300 || len(p.tools)+len(p.systems) > 0 {
		t.Errorf("%d bytes are kept, %d tools and systems", p.size, len(p.tools)+len(p.systems))
	}
}

// TestTape: what a parser makes of a body does not depend on the body before it, however much they have in common.
func TestTape(t *testing.T) {
	list := func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"[", "[ "}).Draw(t, "open") + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			user(hi), user(hi) + " ", assistant(hi), "1", "12", `"a"`, "[]", `{}`, "{", "",
		}), 0, 4).Draw(t, "messages"), ",") + rapid.SampledFrom([]string{"]", "]]", "", "2]"}).Draw(t, "close")
	}
	rapid.Check(t, func(t *rapid.T) {
		used := newParser()
		for range 6 {
			body := []byte(`{"messages":` + list(t) + `}`)
			got, gotErr := used.parse(body)
			want, wantErr := newParser().parse(body)
			if !errors.Is(gotErr, wantErr) || (gotErr == nil) != json.Valid(body) {
				t.Fatalf("%s: %v, a new parser says %v", body, gotErr, wantErr)
			}
			if gotErr == nil && !cmp.Equal(got.messages, want.messages, cmpopts.EquateEmpty(), cmp.AllowUnexported(message{}, block{}, mark{}, flaw{})) {
				t.Fatalf("%s: read otherwise after another body", body)
			}
		}
	})
}

// body10k is a conversation of about ten thousand bytes, as property tests send them.
func body10k(n int) []byte {
	messages := append(make([]string, 0, 27), user(hi))
	for i := range 12 {
		id := fmt.Sprint("t", i)
		messages = append(messages, assistant(use(id)), user(result(id), sized(fmt.Sprint(n, "-", i), 150)))
	}
	messages = append(messages, assistant(hi), user(sized("end", 10, mark5m)))
	return conv(modern, `"system":[`+sized("s", 300, mark5m)+`],`, messages...)
}

// BenchmarkResent is the price of one request in process in a conversation of about 1 MB that grows turn by turn, each turn
// sending all of it again: go test -run XXX -bench Resent -benchmem ./internal/simprovider.
func BenchmarkResent(b *testing.B) {
	text := strings.Repeat(`func f(a \"string\") {\n\treturn \"é\"\n}\n`, 60)
	turn := func(n int, marker string) string {
		id := fmt.Sprint("toolu_", n)
		return user(hi) + "," + assistant(use(id)) + "," +
			user(fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"%s"%s}`, id, text, marker))
	}
	var turns []string
	for size := 0; size < 1<<20; size += len(turns[len(turns)-1]) {
		turns = append(turns, turn(len(turns), ""))
	}
	s, at, first := New(Options{NoLog: true}), start, len(turns)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if len(turns) > first+100 {
			turns = turns[:first]
		}
		body := conv(modern, `"system":"You are an agent.",`, strings.Join(turns, ","), turn(len(turns), mark5m))
		turns, at = append(turns, turn(len(turns), "")), at.Add(10*time.Second)
		b.SetBytes(int64(len(body)))
		b.StartTimer()
		must(b, s, body, nil, at)
	}
}

// BenchmarkCall is the price of one request in process: of a body seen before, and of one with a new message.
func BenchmarkCall(b *testing.B) {
	for name, fresh := range map[string]bool{"known": false, "fresh": true} {
		b.Run(name, func(b *testing.B) {
			s, body, n := New(Options{}), body10k(0), 0
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if n++; fresh {
					b.StopTimer()
					body = body10k(n)
					b.StartTimer()
				}
				if res := s.Call(body, nil, start); res.Err != nil {
					b.Fatal(res.Err)
				}
			}
		})
	}
}
