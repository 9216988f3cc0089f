package envoy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startWait = 30 * time.Second      // for Envoy to answer; it takes a fraction of a second on an idle machine
	poll      = 20 * time.Millisecond // between two looks
	stopWait  = 5 * time.Second       // between SIGTERM and SIGKILL
	logFlush  = 50 * time.Millisecond // how late a line of the access log may be
)

// Process is an Envoy that runs.
type Process struct {
	Addr  string // of its first listener, host:port
	Admin string // of its own interface, host:port

	dir    string
	cancel context.CancelFunc
	ended  chan struct{} // closed once err is set
	err    error
}

// Start runs binary on config, with one worker, and returns when it takes requests. It ends with ctx or with Stop. The access
// log goes to out if the config sends it to stdout, Envoy's own log to log; writes to each come one after the other.
func Start(ctx context.Context, binary string, config []byte, out, log io.Writer) (*Process, error) {
	dir, err := os.MkdirTemp("", "envoy")
	if err != nil {
		return nil, fmt.Errorf("start envoy: %w", err)
	}
	file, admin := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("start envoy: %w", err), os.RemoveAll(dir))
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, binary,
		"-c", file, "--admin-address-path", admin, "--use-dynamic-base-id", "--concurrency", "1",
		"--drain-time-s", "1", "--log-level", "warn", "--file-flush-interval-msec", strconv.FormatInt(logFlush.Milliseconds(), 10),
	)
	cmd.Stdout, cmd.Stderr = out, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start envoy: %w", err), os.RemoveAll(dir))
	}
	p := &Process{dir: dir, cancel: cancel, ended: make(chan struct{})}
	go func() { p.err = cmd.Wait(); close(p.ended) }()
	if err := p.await(ctx, admin); err != nil {
		return nil, errors.Join(fmt.Errorf("start envoy: %w", err), p.Stop())
	}
	return p, nil
}

// Stop ends Envoy and waits for its end. Open connections are cut.
func (p *Process) Stop() error {
	p.cancel()
	<-p.ended
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("stop envoy: %w", err)
	}
	return nil
}

// Stat is the value of a counter or gauge, by Envoy's name for it; 0 if there is none.
func (p *Process) Stat(ctx context.Context, name string) (int64, error) {
	text, err := p.get(ctx, "/stats?filter=^"+strings.ReplaceAll(name, ".", "\\.")+"$")
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(strings.TrimSpace(text), ": ")
	if !found {
		return 0, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read stat %s: %w", name, err)
	}
	return n, nil
}

// await waits until Envoy has said where it listens and that it is ready.
func (p *Process) await(ctx context.Context, adminPath string) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		select {
		case <-p.ended:
			return fmt.Errorf("it ended: %w", p.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
		admin, err := os.ReadFile(adminPath)
		if err != nil || len(admin) == 0 {
			continue
		}
		p.Admin = string(admin)
		if state, err := p.get(ctx, "/ready"); err != nil || strings.TrimSpace(state) != "LIVE" {
			continue
		}
		return p.findListener(ctx)
	}
}

func (p *Process) findListener(ctx context.Context) error {
	text, err := p.get(ctx, "/listeners?format=json")
	if err != nil {
		return err
	}
	var reply struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Host string `json:"address"`
					Port int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		return fmt.Errorf("read listeners: %w", err)
	}
	if len(reply.Statuses) == 0 {
		return errors.New("read listeners: there is none")
	}
	s := reply.Statuses[0].Address.Socket
	p.Addr = net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	return nil
}

func (p *Process) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask envoy: %w", err)
	}
	req.Close = true // nothing of Envoy's is left open when it ends
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask envoy: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return "", fmt.Errorf("ask envoy: %w", err)
	}
	return string(b), nil
}
