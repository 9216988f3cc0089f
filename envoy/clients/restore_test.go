//go:build unix

package clients_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// token is what the restore listener asks for. The snippets of the document take it from a variable of the environment.
const token = "token-of-the-restore-listener-0123456789"

func TestRestoreClaudeCode(t *testing.T) {
	t.Parallel()
	c := claude
	c.arguments = func(_ int, prompt string) []string { // it has the permissions that its settings give
		return []string{"-p", prompt, "--settings", `{"permissions": {"allow": ["Read", "Edit", "Bash", "mcp__tidemark"]}}`}
	}
	recall(t, recaller{client: c, configure: func(t *testing.T, w *world, url string) {
		t.Helper()
		write(t, filepath.Join(w.dir, ".mcp.json"), keyed(t, "Claude Code", snippet(t, "Claude Code", "json", url)))
	}})
}

func TestRestoreOpencode(t *testing.T) {
	t.Parallel()
	c := opencodeOn(anthropic, "@ai-sdk/anthropic", "claude-sonnet-4-6", opencodeTools)
	recall(t, recaller{client: c, renames: true, configure: func(t *testing.T, w *world, url string) {
		t.Helper()
		write(t, filepath.Join(w.dir, "opencode.json"), keyed(t, "opencode", snippet(t, "opencode", "json", url)))
	}})
}

func TestRestoreCodex(t *testing.T) {
	t.Parallel()
	configure := func(t *testing.T, w *world, url string) {
		t.Helper()
		config := filepath.Join(w.home, "config.toml")
		write(t, config, contents(t, config)+"\n"+keyed(t, "Codex", snippet(t, "Codex", "toml", url)))
	}
	codex := func(own tools, more string) client {
		c := codexOn("gpt-5.5", own, more)
		c.arguments = func(_ int, prompt string) []string { // it asks for permissions, which nobody could give
			return []string{"exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", prompt}
		}
		return c
	}
	for name, c := range map[string]client{
		"functions": codex(codexTools, ""),
		"scripts":   codex(codexScripts, "[features]\ncode_mode = true\ncode_mode_only = true\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recall(t, recaller{client: c, configure: configure})
		})
	}
}

// address is that of the MCP server in docs/restore.md.
const address = "http://127.0.0.1:9004/mcp"

func document(t *testing.T) string {
	t.Helper()
	return contents(t, filepath.Join("..", "..", "docs", "restore.md"))
}

// keyHeader finds what docs/restore.md says of the header by which a client tells whose requests it sends: for Claude Code and
// opencode a member of headers, for Codex a line.
var keyHeader = map[string]*regexp.Regexp{
	"Claude Code": regexp.MustCompile("`(\"x-api-key\": \"\\$[^`]*)`"),
	"opencode":    regexp.MustCompile("`(\"x-api-key\": \"{env[^`]*)`"),
	"Codex":       regexp.MustCompile("`(env_http_headers = [^`]*)`"),
}

// keyed is a snippet with that header.
func keyed(t *testing.T, client, snippet string) string {
	t.Helper()
	m := keyHeader[client].FindStringSubmatch(document(t))
	if m == nil {
		t.Fatalf("docs/restore.md does not show how %s says whose request it is", client)
	}
	if client == "Codex" {
		return snippet + m[1] + "\n"
	}
	return strings.Replace(snippet, `"headers": {`, `"headers": {`+m[1]+", ", 1)
}

// snippet is the block of a language that docs/restore.md shows for a client, with the address of the server that runs.
func snippet(t *testing.T, client, language, url string) string {
	t.Helper()
	_, text, _ := strings.Cut(document(t), "**"+client+".**")
	_, text, _ = strings.Cut(text, "```"+language+"\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok || !strings.Contains(text, address) {
		t.Fatalf("docs/restore.md shows no %s for %s with the address %s", language, client, address)
	}
	return strings.ReplaceAll(text, address, url)
}

var (
	note     = regexp.MustCompile(`^\[tidemark [^\]]* id ([0-9a-f]{24})\]`)
	toolName = regexp.MustCompile(`\w*tidemark\w*` + transcript.RestoreTool)
)

// asked is the id in the first note among results, and the note's number.
func asked(results []string) (id string, at int) {
	for i, text := range results {
		if m := note.FindStringSubmatch(text); m != nil {
			return m[1], i
		}
	}
	return "", -1
}

// restorer is what the request calls the tool that gives originals back, in its tools or else in any text.
func restorer(c *conversation) string {
	i := slices.IndexFunc(c.tools, func(name string) bool { return strings.HasSuffix(name, transcript.RestoreTool) })
	if i >= 0 {
		return c.tools[i]
	}
	return toolName.FindString(c.body)
}

// recollection is a script of one turn with two pauses. After the first, what was read at the beginning is left out, and the model
// asks for it; at the second that is old enough to be left out again, as other results then are. hidden says that the model must
// look for the tool first.
func recollection(hidden bool) *script {
	steps := []step{
		does(act{verb: read, path: "limit.go"}),
		raises("limit.go", "limit"),
		does(act{verb: shell, text: noise(60)}),
		does(act{verb: read, path: "store.go"}),
	}
	if hidden {
		steps = append(steps, func(c *conversation) []act { return []act{{verb: find, tool: restorer(c)}} })
	}
	steps = append(steps, func(c *conversation) []act {
		id, at := asked(c.results)
		name := restorer(c)
		if at < 0 || name == "" {
			return words("There is nothing to ask for, or nobody.")
		}
		return []act{{verb: restore, text: id, tool: name}}
	})
	for i := range 4 {
		steps = append(steps, does(act{verb: shell, text: noise(50 + i)}))
	}
	steps = append(steps, does(act{verb: say, text: "It was ten."}))
	return &script{prompts: []string{"Raise the limit, and say what it was."}, turns: [][]step{steps}, idle: []int{3, len(steps) - 2}}
}

// A client and how it is told of the MCP server. Renames: it gives calls of tools that it does not know another name and loses their
// arguments, so that nobody can answer in its place.
type recaller struct {
	client

	configure func(t *testing.T, w *world, url string)
	renames   bool
}

// recall lets a client's model ask for what was left out: by a tool of the MCP server, and by one that tidemark adds and the client
// knows nothing of.
func recall(t *testing.T, r recaller) {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	write(t, tokens, token+"\n")
	_, hidden := r.tools[find]
	w := newWorld(t, &r.client, recollection(hidden), "restore: {token_file: "+tokens+", tenant: credential}\n")
	w.recalled(t, w.remember(t, recallPath, func() []string {
		r.configure(t, w, "http://"+w.tidemark.Restore+"/mcp")
		return []string{"TIDEMARK_TOKEN=" + token, "TIDEMARK_KEY=" + key}
	}), false)
	w.restored(t, "mcp", 1)

	w.provider.script = recollection(false)
	all := w.remember(t, inlinePath, nil)
	for i, request := range all {
		if names := r.wire.read(request.body).tools; len(names) == 0 || slices.Index(names, transcript.RestoreTool) != len(names)-1 {
			t.Errorf("request %d: the tools are %q", i, names)
		}
	}
	if r.renames {
		results := r.wire.read(all[len(all)-1].body).results
		if !slices.ContainsFunc(results, func(text string) bool { return strings.Contains(text, "unavailable tool 'context_restore'") }) {
			t.Errorf("the results are %.200q", results)
		}
		w.restored(t, "inline", 0)
		return
	}
	w.recalled(t, all, true)
	w.restored(t, "inline", 1)
}

// remember plays the script along a route.
func (w *world) remember(t *testing.T, path string, more func() []string) []request {
	t.Helper()
	o := w.play(t, path, more)
	if o.words[0] != "It was ten." {
		t.Errorf("the client's last words are %q", o.words)
	}
	if n := w.tidemark.Metric(t, `tidemark_prefix_changes_total{declared="false"}`); n != 0 {
		t.Errorf("%.0f prefixes changed undeclared", n)
	}
	return o.answered(t)
}

// restored demands how often something was asked for and given back in a way.
func (w *world) restored(t *testing.T, way string, want float64) {
	t.Helper()
	count := `tidemark_restores_total{path="` + way + `"`
	if asked, ok := w.tidemark.MetricWhen(t, count, envoytest.Is(want)), w.tidemark.MetricWhen(t, count+`,result="ok"`, envoytest.Is(want)); asked != want || ok != want {
		t.Errorf("by %s %.0f were asked for, %.0f given back", way, asked, ok)
	}
}

// recalled demands that what was asked for stands where it was given back, whole and for good: alone, or among what the client says
// around that which a tool gave.
func (w *world) recalled(t *testing.T, main []request, alone bool) {
	t.Helper()
	var original string
	left, given := -1, -1 // numbers of results
	var last []string
	for i, r := range main {
		results := w.client.wire.read(r.body).results
		_, at := asked(results)
		switch {
		case left < 0 && at >= 0:
			left, original = at, last[at]
		case left >= 0 && given < 0:
			given = slices.IndexFunc(results, func(text string) bool {
				return text == original || !alone && strings.Contains(text, original)
			})
		case given >= 0 && (at != left || results[left] != last[left] || results[given] != last[given]):
			t.Errorf("request %d: the note is %.200q, what was given back %.200q", i, results[left], results[given])
		}
		last = results
	}
	if given < 0 || len(original) < 5000 {
		t.Fatalf("result %d was left out, result %d given back: %q", left, given, original)
	}
	if slices.IndexFunc(last[left+1:], note.MatchString) < 0 {
		t.Errorf("at the end nothing else was left out: %.200q", last)
	}
}

// The commands that docs/restore.md shows tell a client the same as its snippets.
func TestRestoreCommands(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:7/mcp"
	doc := strings.ReplaceAll(document(t), address, url)
	for name, c := range map[string]struct {
		client  client
		pattern string
		told    func(t *testing.T, home string) (got, want string)
	}{
		"Claude Code": {claude, "(?m)^claude (mcp add .*)$", func(t *testing.T, home string) (got, want string) {
			t.Helper()
			want = strings.ReplaceAll(gjson.Get(snippet(t, "Claude Code", "json", url), "mcpServers.tidemark|@ugly").Raw, "${TIDEMARK_TOKEN}", token)
			return gjson.Get(contents(t, filepath.Join(home, ".claude.json")), "projects.*.mcpServers.tidemark|@ugly").Raw, want
		}},
		"Codex": {codexOn("gpt-5.5", codexTools, ""), "`codex (mcp add [^`]*)`", func(t *testing.T, home string) (got, want string) {
			t.Helper()
			_, got, _ = strings.Cut(contents(t, filepath.Join(home, "config.toml")), "[mcp_servers.tidemark]")
			_, want, _ = strings.Cut(snippet(t, "Codex", "toml", url), "[mcp_servers.tidemark]")
			return strings.TrimSpace(got), strings.TrimSpace(want)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				t.Skip("it installs a client")
			}
			program, home := install(t, c.client.pkg, c.client.program), t.TempDir()
			write(t, filepath.Join(home, "tmp", "made"), "")
			m := regexp.MustCompile(c.pattern).FindStringSubmatch(doc)
			if m == nil {
				t.Fatal("docs/restore.md does not show it")
			}
			run(t, "/bin/sh", home, home, []string{"CODEX_HOME=" + home, "TIDEMARK_TOKEN=" + token, "PROGRAM=" + program}, "-c", `"$PROGRAM" `+m[1])
			if got, want := c.told(t, home); got != want || got == "" {
				t.Errorf("the command says %q, the snippet %q", got, want)
			}
		})
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
