package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// filter is a tidemark in a process of its own, so that it can be killed.
type filter struct {
	exe, dir string
	listen   string
	admin    string
	cmd      *exec.Cmd
	log      lockedBuffer
}

// lockedBuffer keeps what a process logs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startWait is how long a process may take to be ready.
const startWait = 20 * time.Second

// start runs the filter on its state directory and waits until it is ready.
func (f *filter) start(ctx context.Context) error {
	f.cmd = exec.CommandContext(ctx, f.exe, "demo-filter", "--clock", filepath.Join(f.dir, "clock"), "--listen", f.listen,
		"--admin-listen", f.admin, "--restore-listen", "", "--state", filepath.Join(f.dir, "state"), "--log-level", "warn")
	f.cmd.Stderr = &f.log
	if err := f.cmd.Start(); err != nil {
		return fmt.Errorf("start tidemark: %w", err)
	}
	for began := time.Now(); time.Since(began) < startWait; time.Sleep(20 * time.Millisecond) {
		if text, err := f.get(ctx, "/readyz"); err == nil && strings.Contains(text, "ok") {
			return nil
		}
	}
	return fmt.Errorf("tidemark is not ready after %v: %s", startWait, f.log.String())
}

// kill is kill -9: nothing is flushed, nothing is said.
func (f *filter) kill() {
	if f.cmd != nil && f.cmd.Process != nil {
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
		f.cmd = nil
	}
}

// stop ends the filter as an operator would.
func (f *filter) stop() {
	if f.cmd != nil && f.cmd.Process != nil {
		_ = f.cmd.Process.Signal(syscall.SIGTERM)
		_ = f.cmd.Wait()
		f.cmd = nil
	}
}

func (f *filter) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.admin+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask tidemark: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask tidemark: %w", err)
	}
	b, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return "", fmt.Errorf("ask tidemark: %w", err)
	}
	return string(b), nil
}

// gateAfter is gate once it is more than it was, or what it still is after a long while: a request is counted when its account is
// made, which its client does not wait for.
func (f *filter) gateAfter(ctx context.Context, name string, before float64) (n float64, err error) {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if n, err = f.gate(ctx, name); err != nil || n > before || time.Since(began) > startWait {
			return n, err
		}
	}
}

// gate is how often a gate was met so far, from the metrics page.
func (f *filter) gate(ctx context.Context, name string) (n float64, err error) {
	text, err := f.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "tidemark_gates_total{") && strings.Contains(line, `gate="`+name+`"`) {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err == nil {
				n += v
			}
		}
	}
	return n, nil
}
