package eventlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// firstLines are the lines by which a file is known: the first one may have been cut off.
const firstLines = 3

// maxFaults are the faults that are kept; all are counted.
const maxFaults = 10

// Unread are lines that could not be read.
type Unread struct {
	Later  int     `json:"later,omitempty"` // of a later version
	Broken int     `json:"broken,omitempty"`
	Faults []Fault `json:"faults,omitempty"` // of the broken ones, the first few
}

// Fault is a line that could not be read, and why.
type Fault struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// open opens a file of events, compressed by gzip or not.
func open(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	b := bufio.NewReader(f)
	plain := struct {
		io.Reader
		io.Closer
	}{b, f}
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if plain.Reader, err = gzip.NewReader(b); err != nil {
			return nil, errors.Join(fmt.Errorf("read events: %s: %w", name, err), f.Close())
		}
	}
	return plain, nil
}

// Is reports whether a file is one of events. What cannot be read is none.
func Is(name string) bool {
	_, ok := begins(name)
	return ok
}

// begins is the time of a file's first event.
func begins(name string) (at time.Time, ok bool) {
	if fi, err := os.Stat(name); err != nil || fi.IsDir() {
		return time.Time{}, false
	}
	l, err := open(name)
	if err != nil {
		return time.Time{}, false
	}
	defer l.Close()
	n := 0
	for e, err := range event.Read(l) {
		if err == nil {
			return e.Of().Time, true
		}
		ok = ok || errors.Is(err, event.ErrLater)
		if n++; n == firstLines {
			break
		}
	}
	return time.Time{}, ok
}

// Read calls do with every event of the files, in order: files by the time of their first event, and each file from its
// beginning. Lines that cannot be read are passed over and counted.
func Read(names []string, do func(event.Event)) (*Unread, error) {
	type file struct {
		name string
		at   time.Time
	}
	files := make([]file, len(names))
	for i, name := range names {
		at, _ := begins(name)
		files[i] = file{name, at}
	}
	slices.SortStableFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
	u := &Unread{}
	for _, f := range files {
		if err := u.read(f.name, do); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func (u *Unread) read(name string, do func(event.Event)) error {
	l, err := open(name)
	if err != nil {
		return err
	}
	defer l.Close()
	for e, err := range event.Read(l) {
		var line *event.LineError
		switch {
		case err == nil:
			do(e)
		case errors.Is(err, event.ErrLater):
			u.Later++
		case errors.As(err, &line):
			u.broken(name, err)
		case errors.Is(err, io.ErrUnexpectedEOF):
			u.broken(name, err) // a compressed file that ends too early holds what it holds
		default:
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (u *Unread) broken(name string, err error) {
	u.Broken++
	if len(u.Faults) < maxFaults {
		u.Faults = append(u.Faults, Fault{name, err.Error()})
	}
}
