package envoytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Tidemark is the real program in a process of its own, on a clock that the test sets. It can be killed and started again.
type Tidemark struct {
	Addr  string // of the ext_proc service, the same after every start
	State string // the state directory
	Clock string // file that holds the time; SetClock writes it

	Admin, Restore string // addresses of the endpoints for operators and for restoring, after a start

	dir string
	cmd *exec.Cmd
	log buffer
}

// ready is how long the program may take to start or to end.
const ready = 20 * time.Second

// NewTidemark prepares a program with a server config (YAML, empty for the defaults). It does not run yet. Whatever the config
// says, the addresses and the state directory are the test's own.
func NewTidemark(tb testing.TB, config string) *Tidemark {
	tb.Helper()
	p := &Tidemark{dir: tb.TempDir()}
	p.Addr, p.State, p.Clock = "unix:"+p.file("socket"), p.file("state"), p.file("clock")
	tb.Cleanup(func() {
		p.Kill(tb)
		if tb.Failed() {
			tb.Logf("tidemark logged:\n%s", p.log.String())
		}
	})
	if err := os.WriteFile(p.file("tidemark.yaml"), []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	return p
}

func (p *Tidemark) file(name string) string { return filepath.Join(p.dir, name) }

// SetClock sets the time at which requests arrive from now on.
func (p *Tidemark) SetClock(tb testing.TB, now time.Time) {
	tb.Helper()
	next := p.file("clock.next") // renamed, so that the program never reads half of it
	err := os.WriteFile(next, []byte(strconv.FormatInt(now.UnixNano(), 10)), 0o600)
	if err := errors.Join(err, os.Rename(next, p.Clock)); err != nil {
		tb.Fatal(err)
	}
}

// Start runs the program on its state directory and waits until it is ready.
func (p *Tidemark) Start(tb testing.TB) {
	tb.Helper()
	logged := len(p.log.String())
	p.cmd = exec.CommandContext(context.Background(), Program(tb), "demo-filter", "--clock", p.Clock, "--config", p.file("tidemark.yaml"), "--listen", p.Addr,
		"--admin-listen", "127.0.0.1:0", "--restore-listen", "127.0.0.1:0", "--state", p.State)
	p.cmd.Stderr = &p.log
	p.cmd.Env = append(os.Environ(), "TIDEMARK_DRAIN_DELAY=0s", "TIDEMARK_DEADLINE=4s") // a busy machine must not decide what a test shows
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	for deadline := time.Now().Add(ready); time.Now().Before(deadline); time.Sleep(poll) {
		if m := addresses.FindStringSubmatch(p.log.String()[logged:]); m != nil {
			p.Admin, p.Restore = m[2], m[1]
			if _, err := p.get(tb.Context(), "/readyz"); err == nil {
				return
			}
		}
	}
	tb.Fatalf("tidemark is not ready after %v", ready)
}

const poll = 10 * time.Millisecond

// addresses finds those of the restore endpoints and of the admin endpoints in the log.
var addresses = regexp.MustCompile(`(?s)msg=listening name=restore listen=(\S+) .*msg=serving .*admin=(\S+)`)

// Kill is kill -9: nothing is flushed, nothing is said. A program that does not run stays so.
func (p *Tidemark) Kill(tb testing.TB) {
	tb.Helper()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // the signal is its error
	p.cmd = nil
}

// Stop ends the program as an operator would, and demands that it ends well.
func (p *Tidemark) Stop(tb testing.TB) {
	tb.Helper()
	cmd := p.cmd
	p.cmd = nil
	late := time.AfterFunc(ready, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		tb.Errorf("tidemark did not end well: %v", err)
	}
}

// Log is what the program has logged since it was first started.
func (p *Tidemark) Log() string { return p.log.String() }

// Ask is what the endpoints for operators say at a path.
func (p *Tidemark) Ask(tb testing.TB, path string) string {
	tb.Helper()
	text, err := p.get(tb.Context(), path)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// Metric is the sum of the samples of a metric, by the beginning of their lines: name, perhaps with labels.
func (p *Tidemark) Metric(tb testing.TB, sample string) (sum float64) {
	tb.Helper()
	for line := range strings.Lines(p.Ask(tb, "/metrics")) {
		if !strings.HasPrefix(line, sample) {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
		if err != nil {
			tb.Fatalf("read metric %q: %v", line, err)
		}
		sum += n
	}
	return sum
}

// MetricWhen is Metric once it is what ok demands, or what it still is after a long while: a request is counted when its account is
// made, which its client does not wait for.
func (p *Tidemark) MetricWhen(tb testing.TB, sample string, ok func(float64) bool) (sum float64) {
	tb.Helper()
	for deadline := time.Now().Add(ready); ; time.Sleep(poll) {
		if sum = p.Metric(tb, sample); ok(sum) || time.Now().After(deadline) {
			return sum
		}
	}
}

// Is is said of a metric that has come to a figure.
func Is(want float64) func(float64) bool { return func(n float64) bool { return n == want } }

// AtLeast is said of a metric that has reached a figure.
func AtLeast(want float64) func(float64) bool { return func(n float64) bool { return n >= want } }

func (p *Tidemark) get(ctx context.Context, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, http.NoBody)
	if err != nil {
		return "", err
	}
	r.Close = true // nothing is left open when the program ends
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, res.StatusCode, b)
	}
	return string(b), err
}

// Program is the path of the program, built from this tree once per test binary. TestMain must call RemoveProgram.
func Program(tb testing.TB) string {
	tb.Helper()
	path, err := program()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

var programDir string

var program = sync.OnceValues(func() (path string, err error) {
	_, self, _, _ := runtime.Caller(0)
	if programDir, err = os.MkdirTemp("", "tidemark-program"); err != nil {
		return "", err
	}
	path = filepath.Join(programDir, "tidemark")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", path, "./cmd/tidemark")
	cmd.Dir = filepath.Join(filepath.Dir(self), "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tidemark: %w\n%s", err, out)
	}
	return path, nil
})

// RemoveProgram removes what Program has built, if it has.
func RemoveProgram() {
	if programDir != "" {
		_ = os.RemoveAll(programDir)
	}
}
