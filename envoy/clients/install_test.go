//go:build unix

package clients_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Packages of npm that the tests run, in the versions that they were written for.
const (
	claudePackage   = "@anthropic-ai/claude-code@2.1.332"
	codexPackage    = "@openai/codex@0.171.0"
	opencodePackage = "opencode-ai@1.18.33"
)

// requireVariable is the environment variable that turns a skip for want of a client into a failure.
const requireVariable = "TIDEMARK_REQUIRE_CLIENTS"

// installWait is how long one client may take to install. It is ten times of what it takes on a usual line.
const installWait = 90 * time.Second

// install returns the path of a client's program. It installs the package where it is not there yet, in the user's cache, and
// skips the test if that is not possible.
func install(t *testing.T, pkg, program string) string {
	t.Helper()
	path, err := installed.path(pkg, program)
	switch {
	case err == nil:
	case os.Getenv(requireVariable) == "1":
		t.Fatalf("no %s, and %s=1: %v", pkg, requireVariable, err)
	default:
		t.Skipf("no %s to test with: %v", pkg, err)
	}
	return path
}

// installed are the clients that tests have asked for. What was in vain once is not tried again, and where one took too long no
// other is tried: a slow line must not hold up all tests.
var installed packages

type packages struct {
	mu     sync.Mutex
	failed map[string]error
	slow   error
}

// path is the path of a package's program.
func (p *packages) path(pkg, program string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.failed[pkg], p.slow); err != nil {
		return "", err
	}
	path, err := ensure(pkg, program)
	if err != nil {
		if p.failed == nil {
			p.failed = map[string]error{}
		}
		p.failed[pkg] = err
		if errors.Is(err, context.DeadlineExceeded) {
			p.slow = err
		}
	}
	return path, err
}

// ensure installs a package in one step, so that two test binaries at once do no harm.
func ensure(pkg, program string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "tidemark-clients")
	dir := filepath.Join(root, strings.NewReplacer("/", "-", "@", "-").Replace(strings.TrimPrefix(pkg, "@")))
	path := filepath.Join(dir, "node_modules", ".bin", program)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	next, err := os.MkdirTemp(root, "install")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(next) }()
	ctx, cancel := context.WithTimeout(context.Background(), installWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", next, "--no-audit", "--no-fund", "--fetch-retries", "1", "--loglevel", "error", pkg)
	cmd.Dir, cmd.WaitDelay = next, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		line, _, _ := bytes.Cut(out, []byte("\n")) // the rest is where in npm it happened
		return "", fmt.Errorf("npm install: %w: %s", errors.Join(err, ctx.Err()), line)
	}
	if _, err := os.Stat(filepath.Join(next, "node_modules", ".bin", program)); err != nil {
		return "", err
	}
	if err := os.Rename(next, dir); err != nil {
		if _, there := os.Stat(path); there != nil {
			return "", err
		}
	}
	return path, nil
}
