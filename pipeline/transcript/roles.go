package transcript

import (
	"path"
	"strings"
)

// ToolRole is what a tool does, as far as a filter can use it.
type ToolRole uint8

// Tool roles.
const (
	OtherTool ToolRole = iota
	Read
	Edit  // changes a part of a file
	Write // makes or overwrites a file
	Shell
	Search
	List
	Browser
)

var roleNames = [...]string{"other", "read", "edit", "write", "shell", "search", "list", "browser"}

func (r ToolRole) String() string { return roleNames[r] }

// Changes reports whether a tool of the role changes the file that it names.
func (r ToolRole) Changes() bool { return r == Edit || r == Write }

// Range is the part of a file that a read asked for, as its arguments say it. Two reads cover the same part only if their
// ranges are equal; the zero Range is a read with no range arguments at all, which no explicit range equals.
type Range struct {
	From, To string
	by       string // tool and further arguments of a read that only its own kind repeats
}

// String is the range for people, empty for a whole file.
func (r Range) String() string {
	switch {
	case r.From == "" && r.To == "":
		return ""
	case r.To == "":
		return "from " + r.From
	case r.From == "":
		return "limit " + r.To
	}
	return r.From + ", " + r.To
}

// Access is one thing that a call does to one file.
type Access struct {
	Role  ToolRole // Read, Edit or Write
	Path  string   // cleaned; never empty
	Range Range
}

// CallFacts is what is known of a call from its name and arguments alone.
type CallFacts struct {
	Role     ToolRole
	Path     string   // cleaned; empty if the arguments name none, or several
	Range    Range    // of a read
	Files    []Access // of a call whose arguments name several files: what it does to each
	Shell    []Access // of a shell command: reads of one whole file or a part of it, and narrow write forms
	resolved bool
}

// tool is a row of the table.
type tool struct {
	role  ToolRole
	verbs map[string]ToolRole // multi-verb editors: role by their command
	patch bool                // its files stand in a patch: *** Update File: path
	alien bool                // a shell whose commands are not in the language of the POSIX shell
}

var (
	reads    = tool{role: Read}
	edits    = tool{role: Edit}
	creates  = tool{role: Write}
	runs     = tool{role: Shell}
	searches = tool{role: Search}
	lists    = tool{role: List}
	browses  = tool{role: Browser}
	patches  = tool{role: Edit, patch: true}
	editors  = tool{verbs: map[string]ToolRole{
		"view": Read, "str_replace": Edit, "insert": Edit, "undo_edit": Edit, "create": Write, "write": Write,
	}}
	// table maps lower-cased tool names, server and vendor prefixes stripped, to roles (clients of 2026-11).
	table = map[string]tool{
		"read": reads, "read_file": reads, "read_files": reads, "read_many_files": reads, "view": reads, "view_file": reads,
		"open": reads, "open_file": reads, "notebookread": reads,
		"edit": edits, "multiedit": edits, "notebookedit": edits, "replace": edits, "strreplace": edits, "search_replace": edits,
		"edit_file": edits, "replace_in_file": edits, "apply_diff": edits, "apply_file_diff": edits, "replace_file_content": edits,
		"editor": edits, "apply_patch": patches, "applypatch": patches, "patch": patches,
		"write": creates, "write_file": creates, "write_to_file": creates, "create": creates, "create_file": creates,
		"bash": runs, "shell": runs, "exec_command": runs, "shell_command": runs, "local_shell": runs, "execute_command": runs,
		"run_shell_command": runs, "run_terminal_cmd": runs, "run_commands": runs, "run_command": runs, "terminal": runs,
		"execute_bash": runs, "powershell": {role: Shell, alien: true},
		"grep": searches, "glob": searches, "search_files": searches, "grep_search": searches, "grep_files": searches,
		"search_file_content": searches, "search_codebase": searches, "codebase_search": searches, "find": searches,
		"semanticsearch": searches, "toolsearch": searches, "lsp": searches, "websearch": searches, "find_file": searches,
		"search_file": searches, "search_dir": searches,
		"list": lists, "ls": lists, "list_dir": lists, "list_files": lists, "list_directory": lists, "tree": lists,
		"webfetch": browses, "web_fetch": browses, "browser_action": browses,
		"str_replace_editor": editors, "str_replace_based_edit_tool": editors, "file_editor": editors, "text_editor": editors,
	}
)

// browserPrefix begins the names of the tools by which browser servers show and change a page.
const browserPrefix = "browser_"

// toolOf finds the row of a tool name. Case does not matter, nor does the prefix of an MCP server or a vendor, as in
// mcp__fs__read_file and developer__shell; foreign says that there is one.
func toolOf(name string) (t tool, known, foreign bool) {
	n := strings.ToLower(name)
	if i := strings.LastIndex(n, "__"); i > 0 && n[:i] != "mcp" {
		n, foreign = n[i+2:], true
	}
	if t, known = table[n]; !known && strings.HasPrefix(n, browserPrefix) {
		return browses, true, foreign
	}
	return t, known, foreign
}

// CallFacts works out, once, what a call is.
func (ix *Index) CallFacts(call int32) *CallFacts {
	if len(ix.facts) != len(ix.Calls) {
		ix.facts = append(ix.facts[:0], make([]CallFacts, len(ix.Calls))...)
	}
	f := &ix.facts[call]
	if !f.resolved {
		c := &ix.Calls[call]
		*f = factsOf(ix.ToolName(c), view(c.Input.Of(ix.Body)))
		f.resolved = true
	}
	return f
}

// factsOf classifies a call by its name and its input, a JSON value. Where a known argument stands twice, nobody knows
// which one the client meant, so only the role is told.
func factsOf(name, input string) CallFacts {
	t, known, foreign := toolOf(name)
	f := CallFacts{Role: t.role}
	a := argumentsOf(input)
	if a.twice {
		return f
	}
	if t.verbs != nil {
		f.Role = t.verbs[a.text(verbKeys)]
	}
	f.Path = cleanPath(a.text(pathKeys))
	if !known && f.Path != "" && !a.mutates {
		f.Role = Read
	}
	var by string
	if f.Role == Read && (foreign || !known) {
		by = name + a.others() // other servers' files, and tools of unknown kind, repeat nothing but themselves
	}
	switch f.Role {
	case Read:
		f.Range = a.rng(by)
	case Shell:
		if !t.alien {
			f.Shell = a.shell()
		}
		return f
	default:
	}
	if f.Path == "" {
		f.name(a.files(f.Role, by, t.patch))
	}
	return f
}

// name fills in the files of a call that has no path of its own.
func (f *CallFacts) name(files []Access) {
	if len(files) == 1 {
		f.Path, f.Range = files[0].Path, files[0].Range
		return
	}
	f.Files = files
}

// cleanPath brings a path to the form in which paths are compared: lexically clean, nothing else. Relative and absolute
// forms of one file stay different.
func cleanPath(p string) string {
	if p == "" {
		return ""
	}
	return strings.Clone(path.Clean(p))
}
