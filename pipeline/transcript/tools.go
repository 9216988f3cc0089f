package transcript

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// tool is a row of the table.
type tool struct {
	role  ToolRole
	verbs map[string]ToolRole // multi-verb editors: role by their command, or by their type
	patch bool                // its files stand in a patch: *** Update File: path
	alien bool                // a shell whose commands are not in the language of the POSIX shell, or not in the arguments
	code  bool                // it runs a program that calls other tools
	known bool                // the table has it
	rule  *RoleRule           // what the route says of it
}

var (
	reads    = tool{role: Read}
	edits    = tool{role: Edit}
	creates  = tool{role: Write}
	runs     = tool{role: Shell}
	follows  = tool{role: Shell, alien: true} // writes to, or waits for, a command that runs already
	searches = tool{role: Search}
	lists    = tool{role: List}
	browses  = tool{role: Browser}
	patches  = tool{role: Edit, patch: true}
	editors  = tool{verbs: map[string]ToolRole{
		"view": Read, "str_replace": Edit, "insert": Edit, "undo_edit": Edit, "create": Write, "write": Write,
	}}
	operates = tool{role: Edit, verbs: map[string]ToolRole{"update_file": Edit, "create_file": Write, "delete_file": Write}}
)

// table maps tool names to roles: folded (see fold), server and vendor prefixes stripped. The names are those of the clients of
// 2026-11, each from the client's own source: anomalyco/opencode packages/opencode/src/tool, openai/codex codex-rs/core/src/tools,
// cline/cline src/core and sdk/packages/core, RooCodeInc/Roo-Code src/core/tools, google-gemini/gemini-cli and
// QwenLM/qwen-code packages/core/src/tools, block/goose crates/goose/src/agents/platform_extensions/developer,
// SWE-agent/SWE-agent tools, OpenHands/software-agent-sdk openhands-tools, badlogic/pi-mono packages/coding-agent,
// superagent-ai/grok-cli src/tools; of closed clients from the requests that they send. The items of Responses that name no tool are
// called by their type.
var table = func() map[string]tool {
	m := map[string]tool{}
	add := func(t tool, names string) {
		t.known = true
		for n := range strings.FieldsSeq(names) {
			m[fold(n)] = t
		}
	}
	add(reads, `read read_file read_files read_many_files read_multiple_files view view_file open open_file notebook_read`)
	add(edits, `edit multi_edit notebook_edit edit_notebook replace str_replace search_replace search_and_replace edit_file edit_files
		replace_in_file apply_diff apply_file_diff apply_file_diffs insert_content replace_file_content multi_replace_file_content
		replace_string_in_file multi_replace_string_in_file insert_edit_into_file fast_edit_file reapply undo_edit format_file editor`)
	add(patches, `apply_patch patch`)
	add(operates, `apply_patch_call`)
	add(creates, `write write_file write_to_file create create_file delete delete_file`)
	add(runs, `bash shell exec_command shell_command local_shell local_shell_call shell_call container.exec execute_command
		run_shell_command run_terminal_cmd run_terminal_command run_in_terminal run_commands run_command terminal execute_bash`)
	add(tool{role: Shell, alien: true}, `powershell`)
	add(follows, `write_stdin bash_output read_bash write_bash stop_bash read_command_output command_status send_command_input`)
	add(tool{code: true}, `exec`)
	add(searches, `grep glob search_files grep_search grep_files search_file_content search_codebase codebase_search find
		semantic_search tool_search lsp web_search google_web_search search_web find_file find_by_name search_file search_dir
		file_search file_glob finder codesearch read_url_content read_web_page`)
	add(lists, `list ls list_dir list_files list_directory tree list_code_definition_names`)
	add(browses, `web_fetch fetch_web_content fetch_webpage browser_action`)
	add(editors, `str_replace_editor str_replace_based_edit_tool file_editor text_editor`)
	return m
}()

// fold is the form of a name in which the table has it: read_file, readFile, ReadFile and read-file are one name.
func fold(name string) string { return strings.ToLower(joints.Replace(name)) }

var joints = strings.NewReplacer("_", "", "-", "")

// browserPrefix begins the names of the tools by which browser servers show and change a page.
const browserPrefix = "browser_"

// ownPrefixes are put before a client's own tools: by models that write the name space of their training, and by goose.
var ownPrefixes = []string{"functions.", "default_api.", "default_api:", "developer__"}

// RoleRule says what a route's tools do whose names match. Empty keys stand for the keys that the built-in table knows.
type RoleRule struct {
	Name    string // a pattern in which * and ? match as in file names; case does not matter
	Role    ToolRole
	Path    string // argument that names the file, or a list of files
	From    string // argument that says where a read begins
	To      string // argument that says where it ends, or how much it reads
	Command string // argument that holds a shell command
}

// RoleTable is what a route says of tools, before what is built in. It is immutable; nil says nothing.
type RoleTable struct{ rules []RoleRule }

// NewRoleTable returns a table in which the first rule that matches counts. The error says which rule has a pattern that is none.
func NewRoleTable(rules []RoleRule) (*RoleTable, error) {
	t := &RoleTable{rules: slices.Clone(rules)}
	for i := range t.rules {
		r := &t.rules[i]
		r.Name = strings.ToLower(r.Name)
		if _, err := path.Match(r.Name, ""); err != nil || r.Name == "" {
			return nil, fmt.Errorf("rule %d: %q is no pattern of names", i, rules[i].Name)
		}
	}
	return t, nil
}

// find returns the row of a tool name, and which one that is, empty without one. server is the prefix of a name that is another
// server's tool, in lower case.
func (t *RoleTable) find(name string) (row tool, server, why string) {
	n := strings.ToLower(name)
	if t != nil {
		for i := range t.rules {
			r := &t.rules[i]
			if ok, _ := path.Match(r.Name, n); ok {
				return tool{role: r.Role, known: true, rule: r}, "", "rule " + r.Name
			}
		}
	}
	for _, p := range ownPrefixes {
		n = strings.TrimPrefix(n, p)
	}
	if row, why = builtIn(n); why != "" {
		return row, "", why
	}
	if i := strings.LastIndex(n, "__"); i > 0 {
		if n[:i] != "mcp" {
			row, why = builtIn(n[i+2:])
		}
		return row, strings.Clone(n[:i]), why
	}
	// Some gateways write one sign between server and tool. A word alone may then be part of the tool's own name.
	if i := strings.LastIndexAny(n, ".-/:"); i > 0 && strings.Contains(n[i+1:], "_") {
		if row, why = builtIn(n[i+1:]); why != "" {
			return row, strings.Clone(n[:i]), why
		}
	}
	return row, "", ""
}

// builtIn finds a name in the table.
func builtIn(n string) (row tool, why string) {
	if strings.Contains(n, "__") {
		return tool{}, ""
	}
	if row, ok := table[fold(n)]; ok {
		return row, "tool " + n
	}
	if strings.HasPrefix(n, browserPrefix) {
		row = browses
		row.known = true
		return row, "tools " + browserPrefix + "*"
	}
	return tool{}, ""
}

// actions are words in the name of a tool that does something with a file besides showing it: what it answers is no copy of the
// file, and its only copy.
var actions = map[string]bool{
	"run": true, "exec": true, "execute": true, "test": true, "tests": true, "lint": true, "check": true, "validate": true, "build": true, "compile": true,
	"format": true, "delete": true, "remove": true, "move": true, "rename": true, "copy": true, "create": true, "make": true, "upload": true, "download": true,
	"commit": true, "deploy": true, "analyze": true, "review": true, "diff": true, "blame": true, "log": true, "history": true, "stat": true, "info": true,
}

// words are those of a name: between other signs, and from one upper-case letter to the next.
var words = regexp.MustCompile(`[A-Z]+(?:[a-z]*)|[a-z]+`)

// acts reports whether a word in the name of a tool says that it acts.
func acts(name string) bool {
	return slices.ContainsFunc(words.FindAllString(name, -1), func(w string) bool { return actions[strings.ToLower(w)] })
}

// verb is the role of a multi-verb editor by its command; one that came without is told by what it was given.
func (t *tool) verb(a *arguments) ToolRole {
	v := a.first(verbKeys)
	switch {
	case v.Exists():
		if role, ok := t.verbs[textOf(v)]; ok {
			return role
		}
		return t.role
	case a.first(partKeys).Exists():
		return Edit
	case a.first(wholeKeys).Exists():
		return Write
	}
	return t.role
}
