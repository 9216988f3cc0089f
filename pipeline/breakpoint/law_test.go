package breakpoint

import (
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// TestLaw: the last pass refuses what no placement makes today, so it is asked directly.
func TestLaw(t *testing.T) {
	const body = `{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"},
		{"type":"text","text":""},{"type":"thinking","thinking":"t","signature":"s"},{ },{"type":"text","text":"b","cache_control":null}]},
		{"role":"assistant","content":"c"},{"role":"user","content":[{"type":"text","text":"d"}]}]}`
	ix, err := transcript.Parse([]byte(body), transcript.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Release()
	client := func(seq int32, ttl time.Duration) Mark { return Mark{Seq: seq, TTL: ttl} }
	ours := func(seq int32, ttl time.Duration) Mark { return Mark{Seq: seq, TTL: ttl, marker: -1} }
	const short, long = 5 * time.Minute, time.Hour
	tidy := []Mark{client(0, long), client(1, short), client(7, short)}
	for name, c := range map[string]struct {
		marks, client []Mark
		want          bool
	}{
		"the client's own":              {tidy, tidy, true},
		"one more":                      {[]Mark{client(0, long), ours(1, short), client(7, short)}, tidy[:2], true},
		"two more":                      {[]Mark{client(0, long), ours(1, short), client(7, short)}, tidy[:1], false},
		"four":                          {[]Mark{client(0, long), client(1, short), client(1, short), ours(7, short)}, tidy, true},
		"five":                          {[]Mark{client(0, long), client(1, short), client(1, short), client(1, short), ours(7, short)}, append(tidy, tidy...), false},
		"1h behind 5m":                  {[]Mark{client(0, short), ours(1, long)}, tidy, false},
		"1h behind 5m, as the client":   {[]Mark{client(0, short), ours(1, long)}, []Mark{client(0, short), client(7, long)}, true},
		"ours on empty text":            {[]Mark{client(0, long), ours(2, short)}, tidy, false},
		"the client's on empty text":    {[]Mark{client(0, long), client(2, short)}, tidy, true},
		"ours on thinking":              {[]Mark{client(0, long), ours(3, short)}, tidy, false},
		"ours on an empty object":       {[]Mark{client(0, long), ours(4, short)}, tidy, false},
		"ours beside a null one":        {[]Mark{client(0, long), ours(5, short)}, tidy, false},
		"ours on a string":              {[]Mark{client(0, long), ours(6, short)}, tidy, false},
		"automatic caching on a string": {[]Mark{client(0, long), {Seq: 6, TTL: short, top: true, marker: -1}}, tidy, true},
	} {
		if got := lawful(ix, c.marks, c.client); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
