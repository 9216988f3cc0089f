package pipeline

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
	"github.com/tidemark-dev/tidemark/state"
)

// Bounds of what is kept of bodies that were read. It only saves time: without it everything is read again.
const (
	memoBytes = 64 << 20 // of all memos together
	memoCount = 4096     // memos
	memoHead  = 1 << 10  // bytes by which conversations of one session are told apart
)

// memos keeps, for the conversations that were read last, what the reader knows of their bodies.
type memos struct {
	mu   sync.Mutex
	lru  *simplelru.LRU[state.Digest, *transcript.Memo]
	size int // bytes of all of them
}

func newMemos() (*memos, error) {
	m := &memos{}
	var err error
	m.lru, err = simplelru.NewLRU(memoCount, func(_ state.Digest, old *transcript.Memo) { m.size -= old.Size() })
	return m, err
}

func (m *memos) get(key state.Digest) *transcript.Memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, _ := m.lru.Get(key)
	return memo
}

func (m *memos) put(key state.Digest, memo *transcript.Memo) {
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
	ix.Digest(e.hasher)
	if memo := ix.Memo(e.hasher); memo != nil {
		e.memos.put(key, memo)
	}
	return ix, nil
}
