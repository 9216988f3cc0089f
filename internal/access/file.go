package access

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// maxFile is the largest file of credentials that is read, in bytes: far above a bundle of authorities.
const maxFile = 1 << 20

// files is a value that is read from files, and read again when one of them is another one.
type files[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger

	mu    sync.Mutex
	seen  []os.FileInfo // of the files when they were last read, whether they could be used or not
	value T             // the last good one
}

// open reads the files for the first time.
func open[T any](log *slog.Logger, parse func([][]byte) (T, error), paths ...string) (*files[T], error) {
	f := &files[T]{paths: paths, parse: parse, log: log}
	seen, err := f.look()
	if err != nil {
		return nil, err
	}
	f.seen = seen
	f.value, err = f.read()
	return f, err
}

// get returns the value of the files as they are now, or the last good one.
func (f *files[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := f.look()
	if err == nil && same(f.seen, now) {
		return f.value
	}
	if err != nil && f.seen == nil {
		return f.value // that it is gone was said
	}
	f.seen = now
	if err == nil {
		var v T
		if v, err = f.read(); err == nil {
			f.value = v
			f.log.Info("credentials were read again", "files", f.paths)
			return v
		}
	}
	f.log.Error("credentials cannot be used, the last good ones stay", "files", f.paths, "error", err)
	return f.value
}

// look says what the files are, links followed: who mounts secrets exchanges links.
func (f *files[T]) look() ([]os.FileInfo, error) {
	infos := make([]os.FileInfo, len(f.paths))
	for i, p := range f.paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		infos[i] = info
	}
	return infos, nil
}

func (f *files[T]) read() (v T, err error) {
	contents := make([][]byte, len(f.paths))
	for i, p := range f.paths {
		if contents[i], err = readFile(p); err != nil {
			return v, err
		}
	}
	return f.parse(contents)
}

// same reports whether files are those that were seen before.
func same(before, now []os.FileInfo) bool {
	if len(before) != len(now) {
		return false
	}
	for i := range now {
		if !os.SameFile(before[i], now[i]) || before[i].Size() != now[i].Size() || !before[i].ModTime().Equal(now[i].ModTime()) {
			return false
		}
	}
	return true
}

// readFile reads a file of credentials.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxFile:
		return nil, fmt.Errorf("read %s: the file is over the limit of %d bytes", path, maxFile)
	}
	return b, nil
}
