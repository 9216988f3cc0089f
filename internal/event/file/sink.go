// Package file appends events to a file, as JSON lines.
//
// A [Sink] never makes anybody wait: [Sink.Take] puts the event into a bounded queue or drops it, and one goroutine writes. What
// was taken is in the file at most a second later, in whole lines. Whatever happens to the disk, the sink goes on: events that
// cannot be written are lost and counted, a file or directory that was taken away is made again, and a line that was written
// half is taken back.
//
// A file that would grow beyond a size is renamed, with the time in its name, and a new one begun; of the renamed ones the
// newest are kept. Several processes must not have one file. What is no regular file, as a pipe, is only written to.
//
// Start reading at [New].
package file

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Result says what became of an event.
type Result string

// Results.
const (
	Written Result = "written"
	Dropped Result = "dropped" // the queue was full: the disk is slower than events come
	Failed  Result = "failed"  // the file could not be written
)

const (
	queueLength = 16 << 10        // events: a few first requests of long sessions at once
	bufferBytes = 32 << 10        // that are written at once, or one event that is larger
	flushAfter  = 1 * time.Second // that an event waits at most for others
)

// Options are what a sink works with.
type Options struct {
	Path     string
	MaxBytes int64                 // beyond which the file is renamed; one event that is larger has a file of its own
	Keep     int                   // renamed files
	Paths    bool                  // whether paths of files are written in clear
	Now      func() time.Time      // for the names of files
	Count    func(r Result, n int) // is told of every event once, from many goroutines
	Log      *slog.Logger          // is told when writing begins to fail, and when it works again
}

// Sink writes events. It is safe for concurrent use.
type Sink struct {
	count  func(Result, int)
	queue  chan event.Event
	done   chan struct{}
	mu     sync.RWMutex
	closed bool
}

// New starts a sink. The file is opened with the first event; one that cannot be opened is a failure like others, and no reason
// to stop.
func New(o Options) *Sink {
	s := &Sink{count: o.Count, queue: make(chan event.Event, queueLength), done: make(chan struct{})}
	w := &writer{o: o, file: rotating{path: o.Path, max: o.MaxBytes, keep: o.Keep, now: o.Now}}
	w.encoder = json.NewEncoder(&w.buffer)
	w.encoder.SetEscapeHTML(false)
	go func() {
		defer close(s.done)
		w.run(s.queue)
	}()
	return s
}

// Take writes an event later, or drops it. It returns at once. The event must not change any more.
func (s *Sink) Take(e event.Event) {
	if !s.enqueue(e) {
		s.count(Dropped, 1)
	}
}

func (s *Sink) enqueue(e event.Event) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	select {
	case s.queue <- e:
		return true
	default:
		return false
	}
}

// Close writes what was taken. What comes later is dropped. The error is that of ctx, if the disk takes longer; what is still
// to be written then is written if the process lives long enough.
func (s *Sink) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.queue)
	}
	s.mu.Unlock()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write pending events: %w", ctx.Err())
	}
}

// writer is the goroutine that writes.
type writer struct {
	o       Options
	file    rotating
	buffer  bytes.Buffer // whole lines
	encoder *json.Encoder
	lines   int
	failing bool
}

func (w *writer) run(queue <-chan event.Event) {
	var due <-chan time.Time // nil while nothing waits
	for {
		select {
		case e, ok := <-queue:
			if !ok {
				w.flush()
				w.file.close()
				return
			}
			w.add(e)
			if w.buffer.Len() >= bufferBytes {
				w.flush()
			}
			switch {
			case w.lines == 0:
				due = nil
			case due == nil:
				due = time.After(flushAfter)
			}
		case <-due:
			w.flush()
			due = nil
		}
	}
}

// add encodes an event.
func (w *writer) add(e event.Event) {
	before := w.buffer.Len()
	if err := w.encoder.Encode(w.public(e)); err != nil {
		w.buffer.Truncate(before)
		w.o.Count(Failed, 1)
		w.report(fmt.Errorf("encode %s event: %w", e.Of().Event, err))
		return
	}
	w.lines++
}

// public is an event as it may be written. Others read the event too, so that it is copied and not changed.
func (w *writer) public(e event.Event) event.Event {
	if d, ok := e.(*event.Decision); ok && d.Path != "" && !w.o.Paths {
		hidden := *d
		hidden.Path = ""
		return &hidden
	}
	return e
}

// flush writes the buffer. What cannot be written is given up: the next events may have better luck.
func (w *writer) flush() {
	if w.lines == 0 {
		return
	}
	n, err := w.file.write(w.buffer.Bytes())
	written := bytes.Count(w.buffer.Bytes()[:n], []byte{'\n'})
	w.tally(Written, written)
	w.tally(Failed, w.lines-written)
	w.report(err)
	w.lines = 0
	w.buffer.Reset()
}

func (w *writer) tally(r Result, n int) {
	if n > 0 {
		w.o.Count(r, n)
	}
}

// report logs when writing begins to fail, and when it works again.
func (w *writer) report(err error) {
	switch {
	case err != nil && !w.failing:
		w.o.Log.Error("events are lost", "error", err)
	case err == nil && w.failing:
		w.o.Log.Info("events are written again")
	}
	w.failing = err != nil
}
