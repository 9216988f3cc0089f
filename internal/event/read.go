package event

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// MaxLine is the length in bytes beyond which a line is not read.
const MaxLine = 16 << 20

// Why a line is not read.
var (
	// ErrLater says that a line is of a later version than [Version], or an event that this version does not know.
	ErrLater = errors.New("of a later version")
	// ErrNoEvent says that a line is no event.
	ErrNoEvent = errors.New("no event")
)

// LineError says which line was not read, and why. It unwraps to [ErrLater], [ErrNoEvent], or to what JSON has against it.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Read reads events, one from each line. With a line that cannot be read, as the last one of a process that was killed, comes a
// [LineError] instead of an event, and reading goes on. Any other error is the reader's, and the last thing that comes. Fields
// that this version does not know are passed over; empty lines are no lines.
func Read(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		b := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			line, tooLong, err := readLine(b)
			if e, bad := parse(line, tooLong, n); e != nil || bad != nil {
				if !yield(e, bad) {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(nil, fmt.Errorf("read events: %w", err))
				return
			}
		}
	}
}

// readLine reads up to the next line feed. Of a line that is too long it returns nothing.
func readLine(b *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := b.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// parse reads one line. Both are nil for an empty one.
func parse(line []byte, tooLong bool, n int) (Event, error) {
	if tooLong {
		return nil, &LineError{n, fmt.Errorf("%w: longer than %d bytes", ErrNoEvent, MaxLine)}
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil, nil
	}
	e, err := Parse(line)
	if err != nil {
		return nil, &LineError{n, err}
	}
	return e, nil
}

// Parse reads one event. Errors are as those in a [LineError].
func Parse(line []byte) (Event, error) {
	var h struct {
		V     int    `json:"v"`
		Event string `json:"event"`
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEvent, err)
	}
	if h.V < 1 || h.Event == "" {
		return nil, ErrNoEvent
	}
	e := empty(h.Event)
	if h.V > Version || e == nil {
		return nil, fmt.Errorf("%w: event %q, version %d", ErrLater, h.Event, h.V)
	}
	if err := json.Unmarshal(line, e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEvent, err)
	}
	return e, nil
}

// empty is the record of a name, nil for one that is not known.
func empty(name string) Event {
	switch name {
	case NameRequest:
		return new(Request)
	case NameDecision:
		return new(Decision)
	case NameMove:
		return new(Move)
	case NameUsage:
		return new(Usage)
	case NameLoss:
		return new(Loss)
	case NameRestore:
		return new(Restore)
	case NameReuse:
		return new(Reuse)
	case NameSpend:
		return new(Spend)
	case NameConfig:
		return new(Config)
	}
	return nil
}
