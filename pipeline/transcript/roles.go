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
	Write // makes, overwrites, moves or deletes a file
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

// ends reports whether the range says where the part ends.
func (r Range) ends() bool { return r.To != "" || strings.HasPrefix(r.From, "[") }

// Access is one thing that a call does to one file.
type Access struct {
	Role  ToolRole // Read, Edit or Write
	Path  string   // cleaned; never empty
	Range Range
}

// CallFacts is what is known of a call from its name and arguments alone.
type CallFacts struct {
	Role  ToolRole
	Place string   // where its files are: another server, host or revision than the client's own; equal paths elsewhere are other files
	Path  string   // cleaned; empty if the arguments name none, or several
	Range Range    // of a read
	Files []Access // of a call whose arguments name several files: what it does to each
	Shell []Access // of a shell command: reads of one whole file or a part of it, and narrow write forms
	Moves bool     // of a shell command: it may leave the client's shell in another directory, where relative paths mean other files

	resolved bool
	outcome  judged // of the one result that answers the call
}

// CallFacts works out, once, what a call is.
func (ix *Index) CallFacts(call int32) *CallFacts {
	f := ix.factsAt(call)
	if !f.resolved {
		c := &ix.Calls[call]
		outcome := f.outcome
		*f, _ = ix.Roles.classify(ix.ToolName(c), ix.InputText(c), !ix.Format.textual())
		f.resolved, f.outcome = true, outcome
	}
	return f
}

// factsAt is the place of a call's facts.
func (ix *Index) factsAt(call int32) *CallFacts {
	if len(ix.facts) != len(ix.Calls) {
		ix.facts = append(ix.facts[:0], make([]CallFacts, len(ix.Calls))...)
	}
	return &ix.facts[call]
}

// textual reports whether arguments are a string in the format, of which nobody has checked that it is JSON.
func (f Format) textual() bool { return f == Chat || f == Responses }

// classify tells what a call is by its name and its input, and by what it was told. The input is a JSON object, or what the tool
// takes as text: a patch or a command; valid says that it was read as JSON already. Where a known argument stands twice, nobody
// knows which one the client meant, so only the role is told.
func (t *RoleTable) classify(name, input string, valid bool) (f CallFacts, why string) {
	row, server, why := t.find(name)
	f.Role, f.Place = row.role, server
	a, raw := argumentsOf(input, valid, row.rule)
	if !a.input.IsObject() {
		row.text(&f, raw)
		return f, why
	}
	if a.twice {
		return f, why + "; an argument stands twice"
	}
	if row.verbs != nil {
		f.Role = row.verb(&a)
	}
	if row.code && a.first(commandKeys).Exists() {
		f.Role = Shell
	}
	f.Path = cleanPath(a.path())
	if why == "" && f.Path != "" && !a.mutates && !acts(name) {
		f.Role, why = Read, "its arguments: a path, and nothing that only editors and searches take"
	}
	f.Place += a.where()
	f.arguments(&a, &row, name, server != "" || row.rule != nil || !row.known)
	return f, why
}

// arguments fills in what the arguments say of files and ranges. own says that a read of this tool repeats nothing but itself:
// other servers' files, and tools of unknown kind. Reads of other tools repeat each other unless they have arguments of unknown
// meaning.
func (f *CallFacts) arguments(a *arguments, row *tool, name string, own bool) {
	by := a.strange()
	if own {
		by = name + by
	}
	switch f.Role {
	case Read:
		if own {
			by = name + a.others()
		}
		f.Range = a.rng(by)
	case Shell:
		if !row.alien {
			f.run(a.commands())
		}
		for i := range f.Shell {
			if s := &f.Shell[i]; s.Role == Read {
				s.Range.by = by
			}
		}
		f.Moves = f.Role == Shell && cdLike(a.input.Raw)
		return
	default:
	}
	if f.Path == "" {
		f.name(a.files(f.Role, by, row.patch))
	}
}

// run notes what commands do. One that is nothing but a patch is an edit, whatever tool it was handed to: clients apply it
// themselves.
func (f *CallFacts) run(found []Access, patch bool) {
	if !patch {
		f.Shell = found
		return
	}
	f.Role = Edit
	f.name(found, false)
}

// text notes what a tool does that was handed a text, not arguments by name.
func (t *tool) text(f *CallFacts, raw string) {
	switch {
	case t.patch:
		f.name(patched(raw), false)
	case t.code:
		runCode(f, raw)
	case f.Role == Shell && !t.alien && !strings.HasPrefix(raw, `{"`):
		f.run(runCommand(raw, "", true))
	}
	f.Moves = f.Role == Shell && cdLike(raw)
}

// cdLike reports whether a text that holds commands, as it stands or in JSON, may hold one that changes the directory. It says so
// too often rather than too rarely.
func cdLike(text string) bool {
	for {
		i := strings.Index(text, "cd")
		if i < 0 {
			return strings.Contains(text, "pushd") || strings.Contains(text, "popd")
		}
		text = text[i+len("cd"):]
		if text == "" || !isWord(text[0]) {
			return true
		}
	}
}

// name fills in the files of a call that has no path of its own. A read is that of one file only if it names no other.
func (f *CallFacts) name(files []Access, more bool) {
	if len(files) == 1 && (f.Role != Read || !more) {
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
