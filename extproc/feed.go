package extproc

import (
	"errors"
	"io"
	"sync"
)

// Bounds of what may wait for the reader of a response. One that is further behind is given up.
const (
	maxPending = 8 << 20 // bytes
	chunkCost  = 64      // bytes that a chunk counts for besides its own, so that tiny ones are bounded too
)

// errBehind says that the reader of a response could not keep up.
var errBehind = errors.New("too much is pending")

// feed hands the chunks of a response to a reader of it. Whoever has them never waits: put only notes the chunk.
type feed struct {
	mu      sync.Mutex
	changed sync.Cond
	chunks  [][]byte
	pending int   // bytes of chunks, each with its cost
	end     error // what the reader gets after the chunks; nil: more may come
}

func newFeed() *feed {
	f := &feed{}
	f.changed.L = &f.mu
	return f
}

// put adds a chunk, which must not change afterwards.
func (f *feed) put(chunk []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end != nil || len(chunk) == 0 {
		return
	}
	f.chunks, f.pending = append(f.chunks, chunk), f.pending+len(chunk)+chunkCost
	if f.pending > maxPending {
		f.stop(errBehind)
		f.chunks = nil
	}
	f.changed.Signal()
}

// close says that no chunk follows.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop(io.EOF)
}

// abandon says that nobody reads any more.
func (f *feed) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop(io.EOF)
	f.chunks = nil
}

// stop sets the end, with the lock held. The first one stays.
func (f *feed) stop(end error) {
	if f.end == nil {
		f.end = end
	}
	f.changed.Signal()
}

// Read implements [io.Reader] for one reader.
func (f *feed) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.chunks) == 0 && f.end == nil {
		f.changed.Wait()
	}
	if len(f.chunks) == 0 {
		return 0, f.end
	}
	n := copy(p, f.chunks[0])
	f.pending -= n
	if f.chunks[0] = f.chunks[0][n:]; len(f.chunks[0]) == 0 {
		f.chunks[0] = nil // the rest of the list keeps it otherwise
		f.chunks, f.pending = f.chunks[1:], f.pending-chunkCost
	}
	return n, nil
}
