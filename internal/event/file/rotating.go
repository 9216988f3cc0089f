package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stamp is the time in the name of a renamed file. Sorted by name, files are sorted by time.
const stamp = "20060102T150405.000Z"

// Modes of what is made: events say who works when, and on what.
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// rotating is a file that is renamed when it has become too large. Its zero value with path, max, keep and now set is ready.
type rotating struct {
	path string
	max  int64
	keep int
	now  func() time.Time

	file    *os.File
	info    os.FileInfo // of file
	size    int64       // bytes of it, all of them whole lines
	regular bool
}

// write appends whole lines and returns how many bytes of whole lines went into the file. It may return an error with all of
// them: an old file could not be removed.
func (r *rotating) write(lines []byte) (n int, err error) {
	renamed, err := r.ready(int64(len(lines)))
	if err != nil {
		r.close()
		return 0, err
	}
	n, err = r.file.Write(lines)
	if err != nil {
		n = bytes.LastIndexByte(lines[:n], '\n') + 1
		err = fmt.Errorf("write events: %w", errors.Join(err, r.takeBack(r.size+int64(n))))
		r.close()
		return n, err
	}
	r.size += int64(n)
	if renamed {
		return n, r.prune()
	}
	return n, nil
}

// ready opens the file, and renames it before if that many bytes are too many for it.
func (r *rotating) ready(bytes int64) (renamed bool, err error) {
	if r.file != nil {
		// Somebody may have renamed or removed it.
		if now, err := os.Stat(r.path); err != nil || !os.SameFile(now, r.info) {
			r.close()
		}
	}
	if r.file == nil {
		if err := r.open(); err != nil {
			return false, err
		}
	}
	if r.size == 0 || !r.regular || r.size+bytes <= r.max {
		return false, nil
	}
	r.close()
	if err := r.rename(); err != nil {
		return false, err
	}
	return true, r.open()
}

// open opens the file, and ends a line that was written half.
func (r *rotating) open() (err error) {
	if err := os.MkdirAll(filepath.Dir(r.path), dirMode); err != nil {
		return fmt.Errorf("make directory of events: %w", err)
	}
	if r.file, err = os.OpenFile(r.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, fileMode); err != nil {
		return fmt.Errorf("open file of events: %w", err)
	}
	if r.info, err = r.file.Stat(); err != nil {
		return fmt.Errorf("open file of events: %w", err)
	}
	r.size, r.regular = r.info.Size(), r.info.Mode().IsRegular()
	if !r.regular || r.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := r.file.ReadAt(last, r.size-1); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read end of events: %w", err)
	}
	if last[0] == '\n' {
		return nil
	}
	if _, err := r.file.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("end last event: %w", err)
	}
	r.size++
	return nil
}

// takeBack removes what was written of half a line.
func (r *rotating) takeBack(size int64) error {
	if !r.regular {
		return nil
	}
	return r.file.Truncate(size)
}

func (r *rotating) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// rename gives the file a name with the time, or with one after that of the newest renamed file, should the clock have been set
// back.
func (r *rotating) rename() error {
	old, err := r.renamed()
	if err != nil {
		return err
	}
	at := r.now().UTC()
	if n := len(old); n > 0 && !at.After(old[n-1].at) {
		at = old[n-1].at.Add(time.Millisecond)
	}
	before, after := r.around()
	if err := os.Rename(r.path, before+at.Format(stamp)+after); err != nil {
		return fmt.Errorf("rename file of events: %w", err)
	}
	return nil
}

// around is what stands before and after the time in the name of a renamed file.
func (r *rotating) around() (before, after string) {
	path := filepath.Clean(r.path)
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-", ext
}

// aged is a renamed file.
type aged struct {
	name string
	at   time.Time
}

// renamed are the renamed files, compressed by somebody or not, oldest first.
func (r *rotating) renamed() (old []aged, err error) {
	before, after := r.around()
	dir := filepath.Dir(before)
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list files of events: %w", err)
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		text, begun := strings.CutPrefix(strings.TrimSuffix(name, ".gz"), before)
		text, ended := strings.CutSuffix(text, after)
		if at, err := time.Parse(stamp, text); begun && ended && err == nil {
			old = append(old, aged{name, at})
		}
	}
	slices.SortFunc(old, func(a, b aged) int { return a.at.Compare(b.at) })
	return old, nil
}

// prune removes the oldest renamed files.
func (r *rotating) prune() error {
	old, err := r.renamed()
	if err != nil {
		return err
	}
	for len(old) > r.keep {
		err = errors.Join(err, os.Remove(old[0].name))
		old = old[1:]
	}
	return err
}
