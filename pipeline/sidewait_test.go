package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/gen"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// deaf is a store that finds no sessions by how they begin before its time is over.
type deaf struct {
	state.Store
	left time.Duration // that it was given last
}

func (d *deaf) Heads(ctx context.Context, _ state.Digest, _ [2]state.Digest) ([]state.SessionKey, error) {
	until, _ := ctx.Deadline()
	d.left = time.Until(until)
	return nil, context.DeadlineExceeded
}

// TestSideWaits: a request on the side that belongs to nothing known does not wait as long for a slow store as one does that begins
// a conversation, and goes out as it came.
func TestSideWaits(t *testing.T) {
	store := &deaf{Store: memory.New()}
	e := engineOn(t, store, time.Time{})
	k := newTalk().say("Sum this up.")
	k.Mark(gen.Short)
	for _, aside := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		r := ask(k.Body(), &pipeline.Config{Name: "none"}, epoch)
		r.Auxiliary, r.Session = aside, fmt.Sprint("aside ", aside)
		o := e.Request(ctx, r)
		cancel()
		if most := time.Hour / 4; aside && (store.left == 0 || store.left > most || o.Body != nil) || !aside && store.left <= most {
			t.Errorf("aside %v: the store was given %v", aside, store.left)
		}
		store.left = 0
	}
}
