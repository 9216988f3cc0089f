package pipeline

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Bounds of what is kept of bodies that were read. It only saves time: without it everything is read again.
const (
	memoBytes = 64 << 20 // of all memos of one kind together
	memoCount = 4096     // memos of one kind
	memoHead  = 1 << 10  // bytes by which conversations of one session are told apart
)

// memos keeps what is known of the conversations that were used last.
type memos[K comparable, V interface{ Size() int }] struct {
	mu   sync.Mutex
	lru  *simplelru.LRU[K, V]
	size int // bytes of all of them
}

func newMemos[K comparable, V interface{ Size() int }]() (*memos[K, V], error) {
	m := &memos[K, V]{}
	var err error
	m.lru, err = simplelru.NewLRU(memoCount, func(_ K, old V) { m.size -= old.Size() })
	return m, err
}

func (m *memos[K, V]) get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, _ := m.lru.Get(key)
	return memo
}

// take gets a memo that will be changed: until it is put back nobody else finds it.
func (m *memos[K, V]) take(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, _ := m.lru.Peek(key)
	m.lru.Remove(key)
	return memo
}

func (m *memos[K, V]) put(key K, memo V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lru.Remove(key)
	m.size += memo.Size()
	m.lru.Add(key, memo)
	for m.size > memoBytes {
		m.lru.RemoveOldest()
	}
}

// memoKey is under which the memo of a request's conversation lies. A body that a memo fits begins with the same bytes.
func (e *Engine) memoKey(r *Request) state.Digest {
	b := make([]byte, 0, memoHead+256)
	for _, part := range []string{r.Tenant, r.Session, r.Agent} {
		b = append(append(b, part...), 0)
	}
	return e.hasher.Sum(append(b, r.Body[:min(len(r.Body), memoHead)]...))
}

// parse reads and hashes the body: from where the memo of its conversation ends, if there is one that fits.
func (e *Engine) parse(r *Request) (*transcript.Index, error) {
	key := e.memoKey(r)
	ix, _, err := transcript.ParseOn(r.Body, r.Format, e.memos.get(key), e.hasher)
	if err != nil {
		return nil, err
	}
	if ix.Model == "" {
		ix.Model = r.Model
	}
	ix.Digest(e.hasher)
	if memo := ix.Memo(e.hasher); memo != nil {
		e.memos.put(key, memo)
	}
	return ix, nil
}

// filterKey is under which a filter's memo of a branch lies.
type filterKey struct {
	session state.SessionKey
	branch  uint64
	filter  string
}

// filterMemo is what a filter keeps of a branch, and the messages that it stands for.
type filterMemo struct {
	filters.Memo
	chain []state.Digest
}

// Size is about how many bytes it holds.
func (m *filterMemo) Size() int { return m.Memo.Size() + len(m.chain)*len(state.Digest{}) }

// memo implements View.Memo. What is grown is kept when every filter has spoken: until then nobody else may change it, and
// after a panic it is gone.
func (p *pass) memo(filter string, grow func(kept filters.Memo) filters.Memo) filters.Memo {
	m := p.grown[filter]
	if m == nil {
		m = p.e.known.take(filterKey{p.sess.key, p.b.ID, filter})
	}
	var kept filters.Memo
	if m != nil && int(common(m.chain, p.chain)) == len(m.chain) {
		kept = m.Memo
	}
	m = &filterMemo{Memo: grow(kept)}
	n := m.Messages()
	m.chain = p.chain[:n:n]
	p.grown[filter] = m
	return m.Memo
}

// keepGrown keeps what filters have worked out for the branch's next request.
func (p *pass) keepGrown() {
	for filter, m := range p.grown {
		p.e.known.put(filterKey{p.sess.key, p.b.ID, filter}, m)
	}
}
