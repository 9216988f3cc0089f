package pipeline_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/filters/all"
	"github.com/tidemark-dev/tidemark/filters/shed"
	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// sequence lists the values of a body in the provider's order, breakpoints left out, and how many of them its last breakpoint
// covers. It reads the bytes as they are.
func sequence(body []byte) (list []string, covered int) {
	add := func(prefix string, v gjson.Result) {
		v.ForEach(func(_, e gjson.Result) bool {
			list = append(list, prefix+markerOf.ReplaceAllString(e.Raw, ""))
			if strings.Contains(e.Raw, `"cache_control":{`) {
				covered = len(list)
			}
			return true
		})
	}
	add("tool ", gjson.GetBytes(body, "tools"))
	add("system ", gjson.GetBytes(body, "system"))
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		content := m.Get("content")
		if content.Type == gjson.String {
			content = gjson.Parse(`[{"type":"text","text":` + content.Raw + `}]`)
		}
		add(m.Get("role").Str+" ", content)
	}
	return list, covered
}

// longSession is what happened in a session of many turns.
type longSession struct{ requests, moves, changes, cuts, again int }

// playLong plays 200 turns with pauses below and above the TTL. What a request leaves in the cache must begin the next one,
// but at a move that is declared.
func playLong(t *testing.T, c *pipeline.Config, seed uint64) (n longSession) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 200))
	l := newLive(t, c, simprovider.Policy{})
	m := gen.New(r, gen.Options{ResultBytes: 400, Files: 12})
	k := m.Start()
	k.System = append(k.System, gen.Text(strings.Repeat("You are a coding agent. ", 600)))
	k.Messages[0].Blocks = append(k.Messages[0].Blocks, gen.Text("Do it all."))
	var before []string
	covered := 0
	for range 200 {
		m.Turn(k)
		k.Mark(gen.Short)
		switch p := r.IntN(20); {
		case p == 0:
			l.wait(20 * time.Minute)
		case p < 4:
			l.wait(4 * time.Minute)
		default:
			l.wait(time.Duration(5+r.IntN(40)) * time.Second)
		}
		l.askAny(k)
		l.observe(l.answer())
		n.requests++
		now, through := sequence(l.out)
		changed := len(now) < covered || !slices.Equal(now[:covered], before[:covered])
		if changed && l.o.Move == nil {
			t.Fatalf("seed %d, request %d: the prefix changed without a move (gate %q, %v)", seed, n.requests, l.o.Gate, l.o.Gates)
		}
		n.moves += b2i(l.o.Move != nil)
		n.changes += b2i(changed)
		for _, d := range l.o.New {
			n.cuts += b2i(d.Drop)
			n.again += b2i(d.Drop && d.Verdict == shed.Again)
		}
		before, covered = now, through
	}
	return n
}

// TestLongSessions: over sessions of 200 turns the prefix changes at declared moves alone, so at most once for each of them.
func TestLongSessions(t *testing.T) {
	pool, _ := smallFilters(t)
	everything := &pipeline.Config{Name: "all"}
	for _, name := range all.Names() {
		everything.Filters = append(everything.Filters, pool[name])
	}
	warm := *everything
	warm.Name = "warm moves"
	warm.Moves = pipeline.Moves{Warm: true, MinGain: 0.001, Budget: 5, Spacing: 10, Horizon: 60}
	for i, c := range []*pipeline.Config{{Name: "shed", Filters: []filters.Filter{pool[shed.Name]}}, everything, &warm} {
		t.Run(c.Name, func(t *testing.T) {
			n := playLong(t, c, uint64(i))
			t.Logf("%+v", n)
			if n.changes > n.moves {
				t.Errorf("the prefix changed %d times in %d moves", n.changes, n.moves)
			}
			if n.changes == 0 || n.cuts == 0 || n.again == 0 {
				t.Errorf("%+v: the session proves nothing", n)
			}
		})
	}
}
