package simprovider

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
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
	if p.size > len(body)+300 || len(p.heads) > 0 {
		t.Errorf("%d bytes are kept, %d tools and systems", p.size, len(p.heads))
	}
}

// TestSplit: a document is cut where its grammar says, and nothing else is taken for one.
func TestSplit(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`: "", ` { } `: "", `{"a":1}`: "a=1", "{\"a\" :\t1 ,\n\"b\": [1,{\"x\":\"]}\"}] }": `a=1 b=[1,{"x":"]}"}]`,
		`{"a\u0062":"\\\"","":-1.5e3}`: `ab="\\\"" =-1.5e3`,
	} {
		var got []string
		err := members([]byte(raw), func(name string, value []byte) error {
			got = append(got, name+"="+string(value))
			return sound(value)
		})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		``, ` `, `{`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{a:1}`, `{1:1}`, `{"a":1}}`, `{"a":1}x`,
		`{"a":"x}`, `{"a":[1}`, `{"a":1]`, `{"a\x":1}`, `{"a":1 "b":2}`, `{[]:1}`, `[1]`,
	} {
		if err := members([]byte(raw), func(_ string, value []byte) error { return sound(value) }); err == nil {
			t.Errorf("%s is taken for an object", raw)
		}
		if json.Valid([]byte(raw)) && raw != `[1]` {
			t.Errorf("%s is an object after all", raw)
		}
	}
	stop := errors.New("stop")
	if err := elements([]byte(`[1,2]`), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
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
