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
	"syscall"
	"testing"
	"time"
)

// client is a coding agent, and how it is pointed at a gateway.
type client struct {
	pkg, program string
	wire         wire
	tools        tools
	// configure writes what the client needs into its home, and returns what it needs in its environment. base is the gateway's
	// address without the path of an API.
	configure func(t *testing.T, home, base string) []string
	// arguments run the client on a prompt, the second time in the session of the first.
	arguments func(turn int, prompt string) []string
}

// key is what clients authenticate with. It names the tenant, and the provider's workspace.
const key = "sk-test-key"

var claude = client{
	pkg: claudePackage, program: "claude", wire: anthropic, tools: claudeTools,
	configure: func(_ *testing.T, _, base string) []string {
		return []string{
			"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=" + key, "ANTHROPIC_MODEL=claude-sonnet-4-6",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
			"IS_SANDBOX=1", // lets root do without permissions
		}
	},
	arguments: func(turn int, prompt string) []string {
		args := []string{"-p", "--dangerously-skip-permissions"}
		if turn > 0 {
			args = append(args, "--continue")
		}
		return append(args, prompt)
	},
}

// opencodeOn is opencode with one of its providers: npm is the package that speaks with it, which opencode has on board.
func opencodeOn(w wire, npm, model string, own tools) client {
	return client{
		pkg: opencodePackage, program: "opencode", wire: w, tools: own,
		configure: func(t *testing.T, home, base string) []string {
			t.Helper()
			config := filepath.Join(home, "opencode.json")
			write(t, config, marshal(map[string]any{
				"model": "gateway/" + model, "small_model": "gateway/" + model, "autoupdate": false, "share": "disabled",
				"permission": map[string]any{"edit": "allow", "bash": "allow", "webfetch": "deny"},
				"provider": map[string]any{"gateway": map[string]any{
					"npm": npm, "options": map[string]any{"baseURL": base + "/v1", "apiKey": key},
					"models": map[string]any{model: map[string]any{"limit": map[string]any{"context": 200_000, "output": 32_000}}},
				}},
			}))
			return []string{
				"OPENCODE_CONFIG=" + config, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				"npm_config_offline=true", // it would install a package for plugins
			}
		},
		arguments: func(turn int, prompt string) []string {
			args := []string{"run"}
			if turn > 0 {
				args = append(args, "--continue")
			}
			return append(args, prompt)
		},
	}
}

// codexOn is Codex with a model, which decides what tools it has.
func codexOn(model string, own tools, more string) client {
	return client{
		pkg: codexPackage, program: "codex", wire: responses, tools: own,
		configure: func(t *testing.T, home, base string) []string {
			t.Helper()
			write(t, filepath.Join(home, "config.toml"), fmt.Sprintf(`model = %q
model_provider = "gateway"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.gateway]
name = "gateway"
base_url = %q
wire_api = "responses"
env_key = "GATEWAY_KEY"
%s`, model, base+"/v1", more))
			return []string{"CODEX_HOME=" + home, "GATEWAY_KEY=" + key}
		},
		arguments: func(turn int, prompt string) []string {
			args := []string{"exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"}
			if turn > 0 {
				args = append(args, "resume", "--last")
			}
			return append(args, prompt)
		},
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// turnWait is how long a client may take for one turn of the user. On an idle machine it takes some seconds.
const turnWait = 3 * time.Minute

// run runs the client in dir and returns what it prints. It knows nothing of this machine but the path of its programs.
func run(t *testing.T, program, dir, home string, env []string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), turnWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PWD=" + dir, "TERM=dumb", "LANG=C.UTF-8", "TMPDIR=" + filepath.Join(home, "tmp"), "NO_COLOR=1", "CI=1",
		"XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "XDG_DATA_HOME=" + filepath.Join(home, "data"),
		"XDG_CACHE_HOME=" + filepath.Join(home, "cache"), "XDG_STATE_HOME=" + filepath.Join(home, "state"),
	}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // some clients are two processes
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\nstdout: %s\nstderr: %s", filepath.Base(program), strings.Join(arguments, " "), errors.Join(err, ctx.Err()), stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}
