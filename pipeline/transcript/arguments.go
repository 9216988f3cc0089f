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
	}
	fileKeys    = []string{"files", "paths", "include"}
	patchKeys   = []string{"input", "patchText", "patch"}
	verbKeys    = []string{"command"}
	commandKeys = []string{"command", "cmd", "CommandLine", "commands"}
	dirKeys     = []string{"workdir", "working_directory", "cwd", "dir_path"}
	spanKeys    = []string{"view_range", "read_range", "line_ranges"}
	fromKeys    = []string{"offset", "start_line", "StartLine", "line_number", "start_line_one_indexed"}
	limitKeys   = []string{"limit", "end_line", "EndLine", "end_line_one_indexed_inclusive"}
	modeKeys    = []string{"pages", "mode", "indentation", "head", "tail"} // what else says which part is read
	mutateKeys  = []string{
		"old_string", "new_string", "old_str", "new_str", "oldString", "newString", "oldText", "newText", "old_text", "new_text",
		"content", "contents", "file_text", "text", "diff", "edits", "code_edit", "before", "after", "insert_line", "new_source",
		"replacement", "query", "pattern", "regex",
	}
)

// What an argument is.
const (
	placing  = iota + 1 // names a file or a part of one
	telling             // has another meaning to us
	mutation            // only editors and searches take it: an unknown tool with it is no read
)

var argumentKinds = func() map[string]int {
	kinds := map[string]int{}
	set := func(kind int, lists ...[]string) {
		for _, k := range slices.Concat(lists...) {
			kinds[k] = kind
		}
	}
	set(placing, pathKeys, spanKeys, fromKeys, limitKeys, modeKeys)
	set(telling, fileKeys, dirKeys)
	set(mutation, mutateKeys, patchKeys, commandKeys)
	return kinds
}()

// arguments are the known members of a call's input, null ones too.
type arguments struct {
	input   gjson.Result
	found   []argument
	twice   bool // a known one stands twice
	mutates bool // one is there that only editors and searches take
}

type argument struct {
	key   string
	value gjson.Result
}

func argumentsOf(input string) arguments {
	a := arguments{input: gjson.Parse(input)}
	if !a.input.IsObject() {
		return a
	}
	a.input.ForEach(func(key, value gjson.Result) bool {
		kind := argumentKinds[key.Str]
		if kind == 0 {
			return true
		}
		a.twice = slices.ContainsFunc(a.found, func(b argument) bool { return b.key == key.Str })
		a.mutates = a.mutates || kind == mutation
		a.found = append(a.found, argument{key.Str, value})
		return !a.twice
	})
	return a
}

// others is every member that neither names a file nor a part of one, raw.
func (a *arguments) others() string {
	var text strings.Builder
	a.input.ForEach(func(key, value gjson.Result) bool {
		if argumentKinds[key.Str] != placing {
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
		r.From, r.To = a.first(fromKeys).String(), a.first(limitKeys).String()
	}
	for _, k := range modeKeys {
		if v := a.first([]string{k}); v.Exists() {
			r.From = strings.TrimLeft(r.From+" "+k+" "+v.String(), " ")
		}
	}
	return r
}

// files lists what a call does to the files of a list or a patch. A pattern names no file.
func (a *arguments) files(role ToolRole, by string, patch bool) (found []Access) {
	if patch {
		return patched(a.text(patchKeys))
	}
	list := a.first(fileKeys)
	if !list.IsArray() || role != Read && !role.Changes() {
		return nil
	}
	list.ForEach(func(_, v gjson.Result) bool {
		one := Access{Role: role, Path: cleanPath(textOf(v)), Range: Range{by: by}}
		if v.IsObject() {
			b := argumentsOf(v.Raw)
			if b.twice {
				return true
			}
			one.Path, one.Range = cleanPath(b.text(pathKeys)), b.rng(by)
		}
		if one.Path != "" && !strings.ContainsAny(one.Path, "*?[{") {
			found = append(found, one)
		}
		return true
	})
	return found
}

// patched lists the files of a patch in the form that apply_patch tools take.
func patched(text string) (found []Access) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "*** ") {
			continue
		}
		verb, name, ok := strings.Cut(line[len("*** "):], ": ")
		role := Write
		switch verb {
		case "Update File":
			role = Edit
		case "Add File", "Delete File", "Move to":
		default:
			ok = false
		}
		if p := cleanPath(strings.TrimSpace(name)); ok && p != "" {
			found = append(found, Access{Role: role, Path: p})
		}
	}
	return found
}

// shell lists what the command does, a string or a list of words, or each of several commands.
func (a *arguments) shell() (found []Access) {
	dir, v := a.text(dirKeys), a.first(commandKeys)
	switch {
	case v.Type == gjson.String:
		return shellAccess(textOf(v), dir, true)
	case !v.IsArray():
		return nil
	case a.first([]string{"commands"}).Exists():
		all := v.Array()
		for _, c := range all {
			found = append(found, shellAccess(textOf(c), dir, len(all) == 1)...)
		}
		return found
	}
	return shellAccess(commandLine(v.Array()), dir, true)
}

// commandLine is the command that a list of words stands for: what a shell is told to run, or the words themselves.
func commandLine(words []gjson.Result) string {
	if len(words) == 3 && strings.HasPrefix(words[1].Str, "-") && strings.HasSuffix(words[1].Str, "c") {
		switch path.Base(words[0].Str) {
		case "sh", "bash", "zsh", "dash":
			return textOf(words[2])
		}
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
