//go:build unix

package clients_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Packages of npm that the tests run, in the versions that they were written for.
const (
	claudePackage   = "@anthropic-ai/claude-code@2.1.332"
	codexPackage    = "@openai/codex@0.171.0"
	opencodePackage = "opencode-ai@1.18.33"
)

// RequireVariable is the environment variable that turns a skip for want of a client into a failure.
const RequireVariable = "TIDEMARK_REQUIRE_CLIENTS"

// installWait is how long one client may take to install. It is ten times of what it takes on a usual line.
const installWait = 90 * time.Second

// install returns the path of a client's program. It installs the package where it is not there yet, in the user's cache, and
// skips the test if that is not possible.
func install(t *testing.T, pkg, program string) string {
	t.Helper()
	path, err := installed(t.Context(), pkg, program)
	switch {
	case err == nil:
	case os.Getenv(RequireVariable) == "1":
		t.Fatalf("no %s, and %s=1: %v", pkg, RequireVariable, err)
	default:
		t.Skipf("no %s to test with: %v", pkg, err)
	}
	return path
}

func installed(ctx context.Context, pkg, program string) (string, error) {
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
	next, err := os.MkdirTemp(root, "install") // renamed when it is whole, so that two at once do no harm
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(next) }()
	ctx, cancel := context.WithTimeout(ctx, installWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", next, "--no-audit", "--no-fund", "--no-save", "--loglevel", "error", pkg)
	cmd.Dir, cmd.WaitDelay = next, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w: %s", errors.Join(err, ctx.Err()), bytes.TrimSpace(out[:min(len(out), 500)]))
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
