package transcript

import (
	"path"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"mvdan.cc/sh/v3/syntax"
)

// The arguments that clients use, in the order in which they count (clients of 2026-11).
var (
	pathKeys = []string{
		"file_path", "path", "filePath", "file", "target_file", "absolute_path", "notebook_path", "TargetFile", "AbsolutePath",
		"target_notebook", "filename",
	}
	fileKeys    = []string{"files", "paths", "include", "file_paths", "replacements"}
	patchKeys   = []string{"input", "patchText", "patch"}
	verbKeys    = []string{"command", "type"}
	commandKeys = []string{"command", "cmd", "CommandLine", "commands"}
	dirKeys     = []string{"workdir", "working_directory", "cwd", "dir_path", "Cwd"}
	spanKeys    = []string{"view_range", "read_range", "line_ranges", "line_range"}
	fromKeys    = []string{"offset", "start_line", "StartLine", "startLine", "line_number", "line", "start_line_one_indexed"}
	limitKeys   = []string{"limit", "end_line", "EndLine", "endLine", "end_line_one_indexed_inclusive"}
	modeKeys    = []string{"pages", "mode", "indentation", "head", "tail", "should_read_entire_file"} // what else says which part is read
	whereKeys   = []string{                                                                           // where the files are, if not at the client's own place and state
		"host", "hostname", "server", "machine", "node", "container", "container_id", "containerId", "container_name", "pod", "namespace",
		"sandbox", "sandbox_id", "workspace", "vm", "device", "ref", "branch", "commit", "sha", "revision", "repo", "repository", "owner",
		"project_id",
	}
	// What else own tools take that says nothing of what they read: how long to wait, what for, and who may see it.
	idleKeys = []string{
		"explanation", "description", "instruction", "task_progress", "toolSummary", "toolAction", "waitForPreviousTools", "wait_for_previous",
		"summary", "goal", "thought", "security_risk", "requires_approval", "justification", "sandbox_permissions",
		"with_escalated_permissions", "additional_permissions", "prefix_rule", "dangerouslyDisableSandbox", "SafeToAutoRun", "timeout",
		"timeout_ms", "Timeout", "yield_time_ms", "max_output_tokens", "login", "tty", "shell", "run_in_background", "is_background",
		"isBackground", "background", "Blocking", "WaitMsBeforeAsync", "is_input", "initial_wait", "sessionId", "shellId", "detach", "args",
	}
	partKeys   = []string{"old_str", "new_str", "old_string", "new_string", "insert_line"}
	wholeKeys  = []string{"file_text", "content"}
	mutateKeys = slices.Concat(partKeys, wholeKeys, []string{
		"oldString", "newString", "oldText", "newText", "old_text", "new_text",
		"contents", "text", "diff", "edits", "code_edit", "before", "after", "new_source",
		"replacement", "query", "pattern", "regex",
	})
)

// What an argument is.
const (
	placing  = iota + 1 // names a file or a part of one
	telling             // has another meaning to us, or none
	locating            // says where the files are
	mutation            // only editors and searches take it: an unknown tool with it is no read
)

var argumentKinds = func() map[string]int {
	kinds := map[string]int{}
	set := func(kind int, lists ...[]string) {
		for _, k := range slices.Concat(lists...) {
			kinds[k] = kind
		}
	}
	set(telling, verbKeys, fileKeys, dirKeys, idleKeys)
	set(locating, whereKeys)
	set(placing, pathKeys, spanKeys, fromKeys, limitKeys, modeKeys)
	set(mutation, mutateKeys, patchKeys, commandKeys)
	return kinds
}()

// arguments are the known members of a call's input, null ones too.
type arguments struct {
	input   gjson.Result
	rule    *RoleRule // nil without one
	found   []argument
	twice   bool // a known one stands twice
	mutates bool // one is there that only editors and searches take
}

type argument struct {
	key   string
	value gjson.Result
}

// argumentsOf reads an input that is a JSON object. Of any other it returns the text: that of a string, the second of the words
// of a command that is handed over in a list, or the input itself. valid says that the input is known to be JSON.
func argumentsOf(input string, valid bool, rule *RoleRule) (a arguments, raw string) {
	raw = strings.TrimLeft(input, " \t\r\n")
	if raw == "" || !strings.ContainsRune(`{["`, rune(raw[0])) || !valid && !isJSON(raw) {
		return a, raw
	}
	a = arguments{input: gjson.Parse(raw), rule: rule}
	switch {
	case a.input.IsArray():
		words := a.input.Array()
		if body, ok := patchWords(words); ok {
			return a, body
		}
		return a, commandLine(words)
	case !a.input.IsObject():
		return a, textOf(a.input)
	}
	a.input.ForEach(func(key, value gjson.Result) bool {
		kind := a.kind(key.Str)
		if kind == 0 {
			return true
		}
		a.twice = slices.ContainsFunc(a.found, func(b argument) bool { return b.key == key.Str })
		a.mutates = a.mutates || kind == mutation
		a.found = append(a.found, argument{key.Str, value})
		return !a.twice
	})
	return a, ""
}

// kind is what an argument is, 0 if it has no meaning here.
func (a *arguments) kind(key string) int {
	if r := a.rule; r != nil && key != "" {
		switch key {
		case r.Path, r.From, r.To:
			return placing
		case r.Command:
			return telling
		}
	}
	return argumentKinds[key]
}

// keys are those that a rule names, in the place of the known ones.
func (a *arguments) keys(of func(*RoleRule) string, known []string) []string {
	if a.rule != nil {
		if k := of(a.rule); k != "" {
			return []string{k}
		}
	}
	return known
}

// path is the file that the arguments name.
func (a *arguments) path() string {
	return a.text(a.keys(func(r *RoleRule) string { return r.Path }, pathKeys))
}

// others is every member that neither names a file nor a part of one, raw.
func (a *arguments) others() string { return a.members(func(kind int) bool { return kind != placing }) }

// strange is every member of unknown meaning, and those that say where the files are, raw.
func (a *arguments) strange() string {
	return a.members(func(kind int) bool { return kind == 0 || kind == locating })
}

// where is every member that says where the files are, raw.
func (a *arguments) where() string {
	return a.members(func(kind int) bool { return kind == locating })
}

func (a *arguments) members(of func(kind int) bool) string {
	var text strings.Builder
	a.input.ForEach(func(key, value gjson.Result) bool {
		if of(a.kind(key.Str)) && value.Type != gjson.Null {
			text.WriteString(key.Raw + value.Raw)
		}
		return true
	})
	return text.String()
}

// first is the first of the keys that is there and not null.
func (a *arguments) first(keys []string) (v gjson.Result) {
	for _, k := range keys {
		for i := range a.found {
			if b := &a.found[i]; b.key == k && b.value.Type != gjson.Null {
				return b.value
			}
		}
	}
	return v
}

// text is the first of the keys that is a string.
func (a *arguments) text(keys []string) string {
	return textOf(a.first(keys))
}

// textOf is the text of a string, empty for anything else.
func textOf(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return unquote(v.Raw[1 : len(v.Raw)-1])
}

// rng is the range that the arguments ask for.
func (a *arguments) rng(by string) Range {
	r := Range{by: by, From: a.first(spanKeys).Raw}
	if r.From == "" {
		r.From = a.first(a.keys(func(r *RoleRule) string { return r.From }, fromKeys)).String()
		r.To = a.first(a.keys(func(r *RoleRule) string { return r.To }, limitKeys)).String()
	}
	for _, k := range modeKeys {
		if v := a.first([]string{k}); v.Exists() && v.Type != gjson.False {
			r.From = strings.TrimLeft(r.From+" "+k+" "+v.String(), " ")
		}
	}
	return r
}

// files lists what a call does to the files of a list or a patch. more says that it names others, which are not in the list: in
// another argument, by a pattern, or in a form that is not known.
func (a *arguments) files(role ToolRole, by string, patch bool) (found []Access, more bool) {
	if patch {
		return patched(a.text(patchKeys)), false
	}
	if role != Read && !role.Changes() {
		return nil, false
	}
	keys := a.keys(func(r *RoleRule) string { return r.Path }, fileKeys)
	for _, k := range keys {
		v := a.first([]string{k})
		list := []gjson.Result{v}
		if v.IsArray() {
			list = v.Array()
		}
		for _, v := range list {
			one, ok := a.file(v, role, by)
			if more = more || v.Exists() && !ok; ok {
				found = append(found, one)
			}
		}
	}
	return found, more
}

// file is one file of a list: its name, or an object with name and range. A pattern names no file.
func (a *arguments) file(v gjson.Result, role ToolRole, by string) (one Access, ok bool) {
	one = Access{Role: role, Path: cleanPath(textOf(v)), Range: Range{by: by}}
	if v.IsObject() {
		b, _ := argumentsOf(v.Raw, true, nil)
		if b.twice {
			return one, false
		}
		one.Path = cleanPath(b.text(pathKeys))
		if role == Read {
			one.Range = b.rng(by + b.strange())
		}
	}
	return one, one.Path != "" && !strings.ContainsAny(one.Path, "*?[{")
}

// commands lists what the command does, a string or a list of words, or each of several commands; patch says that it is nothing
// but a patch.
func (a *arguments) commands() (found []Access, patch bool) {
	dir := a.text(dirKeys)
	v := a.first(a.keys(func(r *RoleRule) string { return r.Command }, commandKeys))
	switch {
	case v.Type == gjson.String:
		return runCommand(a.line(v, a.input.Get("args")), dir, true)
	case !v.IsArray():
		return nil, false
	case a.first([]string{"commands"}).Exists():
		all := v.Array()
		for _, c := range all {
			text := textOf(c)
			if c.IsObject() {
				b, _ := argumentsOf(c.Raw, true, nil)
				text = b.line(b.first(commandKeys), c.Get("args"))
			}
			does, is := runCommand(text, dir, len(all) == 1)
			found, patch = append(found, does...), is
		}
		return found, patch
	}
	words := v.Array()
	if body, ok := patchWords(words); ok {
		return joined(patched(body), dir), true
	}
	return runCommand(commandLine(words), dir, true)
}

// line is a command with the words that it is given besides, if it is given any: then no shell reads it.
func (a *arguments) line(command, args gjson.Result) string {
	if !args.IsArray() || a.twice {
		return textOf(command)
	}
	return commandLine(append([]gjson.Result{command}, args.Array()...))
}

// patchWords is the patch of a list of words that is a call of apply_patch: the client applies it, no shell does.
func patchWords(words []gjson.Result) (body string, ok bool) {
	if len(words) == 2 && isPatchTool(words[0].Str) {
		return textOf(words[1]), true
	}
	return "", false
}

// isPatchTool reports whether a command is the one by which models apply patches.
func isPatchTool(command string) bool { return command == "apply_patch" || command == "applypatch" }

// commandLine is the command that a list of words stands for: what a shell is told to run, or the words themselves.
func commandLine(words []gjson.Result) string {
	if len(words) == 3 && isShell(words[0].Str) && isScriptFlag(words[1].Str) {
		return textOf(words[2])
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		q, err := syntax.Quote(w.String(), syntax.LangBash)
		if err != nil {
			return ""
		}
		quoted[i] = q
	}
	return strings.Join(quoted, " ")
}

// isShell reports whether a command is a shell of the POSIX kind.
func isShell(command string) bool {
	switch path.Base(command) {
	case "sh", "bash", "zsh", "dash":
		return true
	}
	return false
}

// isScriptFlag reports whether a flag of a shell says that a script follows that is run, as -c and -lc; with -n it is only read.
func isScriptFlag(flag string) bool {
	return strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "--") && strings.HasSuffix(flag, "c") && !strings.Contains(flag, "n")
}
