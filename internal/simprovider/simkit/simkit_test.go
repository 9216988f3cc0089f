package simkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// TestSplit: a document is cut where its grammar says, and nothing else is taken for one.
func TestSplit(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`: "", ` { } `: "", `{"a":1}`: "a=1", "{\"a\" :\t1 ,\n\"b\": [1,{\"x\":\"]}\"}] }": `a=1 b=[1,{"x":"]}"}]`,
		`{"a\u0062":"\\\"","":-1.5e3}`: `ab="\\\"" =-1.5e3`,
	} {
		var got []string
		err := Members([]byte(raw), func(name string, at int) (int, error) {
			end, err := Skip([]byte(raw), at)
			if err != nil {
				return 0, err
			}
			got = append(got, name+"="+raw[at:end])
			return end, Sound([]byte(raw[at:end]))
		})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		``, ` `, `{`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{a:1}`, `{1:1}`, `{"a":1}}`, `{"a":1}x`,
		`{"a":"x}`, `{"a":[1}`, `{"a":1]`, `{"a\x":1}`, `{"a":1 "b":2}`, `{[]:1}`, `[1]`,
	} {
		if err := Members([]byte(raw), func(_ string, at int) (int, error) {
			end, err := Skip([]byte(raw), at)
			if err != nil {
				return 0, err
			}
			return end, Sound([]byte(raw[at:end]))
		}); err == nil {
			t.Errorf("%s is taken for an object", raw)
		}
		if json.Valid([]byte(raw)) && raw != `[1]` {
			t.Errorf("%s is an object after all", raw)
		}
	}
	stop := errors.New("stop")
	if _, err := Elements([]byte(`[1,2]`), 0, func(int, int) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// TestShelf: the oldest go first, the newest stays; what is kept is found until its time is over.
func TestShelf(t *testing.T) {
	s := NewShelf[int](10)
	for i := range 8 {
		s.Put(fmt.Sprint(i), i, 3, start.Add(time.Duration(i)*time.Minute))
	}
	if len(s.values) != 3 || s.used != 9 || len(s.order) != 3 {
		t.Errorf("%+v", s)
	}
	for id, want := range map[string]bool{"4": false, "5": true, "7": true} {
		if v, ok := s.Get(id, start.Add(5*time.Minute)); ok != want || ok && fmt.Sprint(v) != id {
			t.Errorf("%s: %v %v", id, v, ok)
		}
	}
	if _, ok := s.Get("5", start.Add(5*time.Minute+1)); ok {
		t.Error("5 is found when its time is over")
	}
	if s.Put("9", 9, 99, start); len(s.values) != 1 || s.values["9"].value != 9 {
		t.Errorf("%+v", s)
	}
}

// TestNegotiate: the coding with the highest weight, of several the first.
func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "deflate": "", "gzip, deflate, br, zstd": "gzip", "br;q=0.5, gzip;q=0.4": "br", "zstd": "zstd",
		"gzip;q=0": "", "*": "gzip", "*;q=0, BR ; q=0.1": "br", "identity, br;q=0.9": "", "identity;q=0.1,br": "br", "gzip;q=x": "",
		"deflate,zstd;q=1.0,br": "zstd",
	} {
		if got := negotiate([]string{accept}); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

// TestLogBodies: of large bodies only the newest are kept.
func TestLogBodies(t *testing.T) {
	j := Log[[]byte]{}
	half := make([]byte, keptBodies/2)
	for range 5 {
		j.Add(half, len(half))
	}
	if len(j.list) != 2 || j.bytes != keptBodies {
		t.Errorf("%d bodies of %d bytes are kept", len(j.list), j.bytes)
	}
}
