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
	tidy := []Mark{client(0, long), client(1, short), client(7, short)}
	for name, c := range map[string]struct {
		marks, client []Mark
		placed        int
		want          bool
	}{
		"the client's own":              {tidy, tidy, 0, true},
		"one more":                      {[]Mark{client(0, long), ours(1, short), client(7, short)}, tidy[:2], 0, true},
		"two more":                      {[]Mark{client(0, long), ours(1, short), client(7, short)}, tidy[:1], 0, false},
		"four":                          {[]Mark{client(0, long), client(1, short), client(1, short), ours(7, short)}, tidy, 0, true},
		"five":                          {[]Mark{client(0, long), client(1, short), client(1, short), client(1, short), ours(7, short)}, append(tidy, tidy...), 0, false},
		"1h behind 5m":                  {[]Mark{client(0, short), ours(1, long)}, tidy, 0, false},
		"1h behind 5m, as the client":   {[]Mark{client(0, short), ours(1, long)}, []Mark{client(0, short), client(7, long)}, 0, true},
		"ours on empty text":            {[]Mark{client(0, long), ours(2, short)}, tidy, 0, false},
		"the client's on empty text":    {[]Mark{client(0, long), client(2, short)}, tidy, 0, true},
		"ours on thinking":              {[]Mark{client(0, long), ours(3, short)}, tidy, 0, false},
		"ours on an empty object":       {[]Mark{client(0, long), ours(4, short)}, tidy, 0, false},
		"ours beside a null one":        {[]Mark{client(0, long), ours(5, short)}, tidy, 0, false},
		"ours on a string":              {[]Mark{client(0, long), ours(6, short)}, tidy, 0, false},
		"automatic caching on a string": {[]Mark{client(0, long), {Seq: 6, TTL: short, top: true, marker: -1}}, tidy, 0, true},
		"placed where there was none":   {[]Mark{ours(0, short), ours(7, short)}, nil, 2, true},
		"placed, and a bridge":          {[]Mark{ours(0, short), ours(1, short), ours(7, short)}, nil, 2, true},
		"one placed, and two more":      {[]Mark{ours(0, short), ours(1, short), ours(7, short)}, nil, 1, false},
		"two where none was placed":     {[]Mark{ours(0, short), ours(7, short)}, nil, 0, false},
	} {
		if got := lawful(ix, c.marks, c.client, c.placed); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
