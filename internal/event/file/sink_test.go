package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/event"
	"github.com/tidemark-dev/tidemark/internal/event/eventtest"
	"github.com/tidemark-dev/tidemark/internal/event/file"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tally counts what becomes of events.
type tally struct {
	mu sync.Mutex
	n  map[file.Result]int
}

func (c *tally) add(r file.Result, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[file.Result]int{}
	}
	c.n[r] += n
}

func (c *tally) of(r file.Result) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[r]
}

// log is what the sink logs.
type log struct {
	mu sync.Mutex
	strings.Builder
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.String()
}

func options(path string, c *tally, l io.Writer) file.Options {
	return file.Options{
		Path: path, MaxBytes: 1 << 20, Keep: 5, Count: c.add, Log: slog.New(slog.NewTextHandler(l, nil)),
		Now: func() time.Time { return time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC) },
	}
}

// numbered is an event that says its number.
func numbered(n int) event.Event {
	return &event.Reuse{Head: event.Head{V: event.Version, Event: event.NameReuse, Turn: n}, Call: strings.Repeat("x", n%50)}
}

// numbers are the events of a file.
func numbers(t rapid.TB, path string) (all []int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for e, err := range event.Read(f) {
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, e.Of().Turn)
	}
	return all
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func closed(t rapid.TB, s *file.Sink) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// soon lets the writer write what it has. It is for bubbles of synctest.
func soon() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

func TestWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "events.jsonl")
	var c tally
	var l log
	s := file.New(options(path, &c, &l))
	for _, e := range eventtest.Scene() {
		s.Take(e)
	}
	closed(t, s)
	s.Take(numbered(1))
	closed(t, s)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := eventtest.Scene()
	for _, e := range want {
		if d, ok := e.(*event.Decision); ok {
			d.Path = ""
		}
	}
	if string(got) != string(eventtest.Lines(t, want...)) {
		t.Errorf("got %s", got)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(got)), "\n") {
		if err := eventtest.Validate([]byte(line)); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	if c.of(file.Written) != len(want) || c.of(file.Dropped) != 1 || c.of(file.Failed) != 0 || l.String() != "" {
		t.Errorf("%v, %s", c.n, l.String())
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		if fi, err := os.Stat(name); err != nil || fi.Mode() != mode {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
}

// Paths are written only where it is allowed, and the event that others read as well stays as it is.
func TestPaths(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		var c tally
		o := options(path, &c, io.Discard)
		o.Paths = allowed
		s := file.New(o)
		d := &event.Decision{Head: event.Head{V: 1, Event: event.NameDecision}, Path: "/secret/<plan>", PathHash: "abc", What: "/secret", Marker: "secret"}
		s.Take(d)
		closed(t, s)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), `"path":"/secret/<plan>"`) != allowed || strings.Count(string(text), "secret") > 1 || !strings.Contains(string(text), "abc") || d.Path == "" {
			t.Errorf("allowed %v: %s", allowed, text)
		}
	}
}

// What was taken is in the file a second later, though nothing follows.
func TestFlushesInTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	synctest.Test(t, func(t *testing.T) {
		var c tally
		s := file.New(options(path, &c, io.Discard))
		for i := range 3 {
			s.Take(numbered(i))
			time.Sleep(time.Second - 1)
			synctest.Wait()
			if got := c.of(file.Written); got != i {
				t.Fatalf("%d events are written, want %d", got, i)
			}
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if got := numbers(t, path); !slices.Equal(got, upTo(i+1)) {
				t.Fatalf("%v", got)
			}
		}
		closed(t, s)
	})
}

// However events and restarts come, renamed files and the last one hold the newest events, all of them in order, and none is
// larger than it may be.
func TestRotates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "events.jsonl")
		for _, other := range []string{"events-2020.jsonl", "events-20200101T000000.000Z.txt", "other-20200101T000000.000Z.jsonl", "events-20200101T000000.000Z.jsonl.gz"} {
			if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
				rt.Fatal(err)
			}
		}
		var c tally
		o := options(path, &c, io.Discard)
		o.MaxBytes, o.Keep = 64<<10, rapid.IntRange(0, 4).Draw(rt, "keep")
		n := 0
		for range rapid.IntRange(1, 8).Draw(rt, "starts") {
			s := file.New(o)
			for range rapid.IntRange(0, 600).Draw(rt, "events") {
				s.Take(numbered(n))
				n++
			}
			closed(rt, s)
		}
		old, err := filepath.Glob(filepath.Join(dir, "events-20260302T*Z.jsonl"))
		if err != nil || len(old) > o.Keep {
			rt.Fatalf("%v, %v", old, err)
		}
		var got []int
		for _, name := range append(old, path) {
			fi, err := os.Stat(name)
			if n == 0 && errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil || fi.Size() > o.MaxBytes {
				rt.Fatalf("%s: %v", name, err)
			}
			got = append(got, numbers(rt, name)...)
		}
		lost := n - len(got)
		if want := upTo(n)[lost:]; !slices.Equal(got, want) || lost > 0 && len(old) < o.Keep {
			rt.Fatalf("%d files with %v, want %v", len(old), got, want)
		}
		others, err := filepath.Glob(filepath.Join(dir, "*2020*"))
		compressed := len(others) - 3
		if err != nil || compressed < 0 || compressed == 1 && lost > 0 || len(old) > 0 && len(old)+compressed > o.Keep {
			rt.Fatalf("others: %v, %v", others, err)
		}
		if c.of(file.Written) != n {
			rt.Fatalf("%v, want %d", c.n, n)
		}
	})
}

// An event that is larger than a file may be has a file of its own.
func TestLargeEvent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events")
	var c tally
	o := options(path, &c, io.Discard)
	o.MaxBytes = 64 << 10
	s := file.New(o)
	for i := range 3 {
		s.Take(&event.Reuse{Head: event.Head{V: 1, Event: event.NameReuse, Turn: i}, Call: strings.Repeat("x", 100<<10)})
	}
	closed(t, s)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 3 || files[2] != path+"-20260302T090000.001Z" {
		t.Fatalf("%v, %v", files, err)
	}
	for i, name := range []string{files[1], files[2], path} {
		if got := numbers(t, name); !slices.Equal(got, []int{i}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A directory, or the file, that somebody takes away is made again.
func TestTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	path := filepath.Join(dir, "events.jsonl")
	var c tally
	synctest.Test(t, func(t *testing.T) {
		s := file.New(options(path, &c, io.Discard))
		for i, take := range []func() error{
			func() error { return os.RemoveAll(dir) },
			func() error { return os.Remove(path) },
			func() error { return os.Rename(path, path+".1") },
			func() error { return nil },
		} {
			s.Take(numbered(i))
			soon()
			if got := numbers(t, path); !slices.Equal(got, []int{i}) {
				t.Fatalf("got %v, want %d", got, i)
			}
			if err := take(); err != nil {
				t.Fatal(err)
			}
		}
		closed(t, s)
	})
	if got := numbers(t, path+".1"); !slices.Equal(got, []int{2}) || c.of(file.Written) != 4 {
		t.Errorf("%v, %v", got, c.n)
	}
}

// A sink that cannot write counts and says so once; as soon as it can it goes on, and says that too.
func TestCannotWrite(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var c tally
	var l log
	synctest.Test(t, func(t *testing.T) {
		s := file.New(options(filepath.Join(blocked, "events.jsonl"), &c, &l))
		for i := range 3 {
			s.Take(numbered(i))
			soon()
			if c.of(file.Failed) != i+1 {
				t.Fatalf("%v", c.n)
			}
		}
		if err := os.Remove(blocked); err != nil {
			t.Fatal(err)
		}
		s.Take(numbered(3))
		closed(t, s)
	})
	if got := numbers(t, filepath.Join(blocked, "events.jsonl")); !slices.Equal(got, []int{3}) {
		t.Errorf("%v", got)
	}
	if strings.Count(l.String(), "events are lost") != 1 || strings.Count(l.String(), "events are written again") != 1 {
		t.Error(l.String())
	}
}

// A device that is full takes nothing, and fails nobody.
func TestFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	var c tally
	var l log
	s := file.New(options("/dev/full", &c, &l))
	for i := range 100 {
		s.Take(numbered(i))
	}
	closed(t, s)
	if c.of(file.Failed) != 100 || !strings.Contains(l.String(), syscall.ENOSPC.Error()) {
		t.Errorf("%v, %s", c.n, l.String())
	}
}

// On a disk that becomes full and has room again later, lines are whole, and counted as what became of them.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	path, ballast := filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var c tally
	synctest.Test(t, func(t *testing.T) {
		s := file.New(options(path, &c, io.Discard))
		for i := range 1000 {
			s.Take(numbered(i))
		}
		soon()
		got := numbers(t, path)
		if len(got) == 0 || len(got) == 1000 || c.of(file.Written) != len(got) || c.of(file.Failed) != 1000-len(got) || !slices.Equal(got, upTo(len(got))) {
			t.Fatalf("%v, %v", c.n, got)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		s.Take(numbered(len(got)))
		closed(t, s)
		if again := numbers(t, path); !slices.Equal(again, upTo(len(got)+1)) {
			t.Errorf("%v", again)
		}
	})
}

// Where a disk takes nothing for ever, as a pipe that nobody reads, taking and closing do not wait for it.
func TestSlowDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("make a pipe: %v", err)
	}
	const n = 50_000
	var c tally
	s := file.New(options(path, &c, io.Discard))
	for i := range n {
		s.Take(numbered(i))
	}
	if c.of(file.Dropped) == 0 {
		t.Fatal("nothing was dropped")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	read := make(chan int)
	go func() {
		lines := 0
		for e, err := range event.Read(pipe) {
			if err != nil {
				break
			}
			if e.Of().Turn < 0 {
				break
			}
			lines++
		}
		read <- lines
	}()
	closed(t, s)
	if _, err := fmt.Fprintln(pipe, `{"v":1,"event":"reuse","turn":-1}`); err != nil {
		t.Fatal(err)
	}
	if lines := <-read; lines != c.of(file.Written) || lines+c.of(file.Dropped) != n {
		t.Errorf("%d lines, %v", lines, c.n)
	}
}

// A line that was written half, as by a process that was killed, does not spoil the next one.
func TestHalfLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(`{"v":1,"event":"us`), 0o600); err != nil {
		t.Fatal(err)
	}
	var c tally
	s := file.New(options(path, &c, io.Discard))
	s.Take(numbered(7))
	closed(t, s)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(text), "\n"); len(lines) != 3 || lines[0] != `{"v":1,"event":"us` || !strings.Contains(lines[1], `"turn":7`) || lines[2] != "" {
		t.Errorf("%q", text)
	}
}

// An event that JSON has no words for is lost alone.
func TestCannotEncode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	var c tally
	s := file.New(options(path, &c, io.Discard))
	s.Take(numbered(0))
	s.Take(&event.Spend{Head: event.Head{V: 1, Event: event.NameSpend}, USD: math.NaN()})
	s.Take(numbered(1))
	closed(t, s)
	if got := numbers(t, path); !slices.Equal(got, upTo(2)) || c.of(file.Failed) != 1 || c.of(file.Written) != 2 {
		t.Errorf("%v, %v", got, c.n)
	}
}

// Every event is counted once, also while the sink is closed.
func TestEveryEventIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	var c tally
	s := file.New(options(path, &c, io.Discard))
	s.Take(numbered(0))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				s.Take(numbered(i))
			}
		})
	}
	closed(t, s)
	wg.Wait()
	if got := len(numbers(t, path)); got != c.of(file.Written) || got+c.of(file.Dropped) != 1+8*500 {
		t.Errorf("%d lines, %v", got, c.n)
	}
}
