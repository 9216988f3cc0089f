package transcript

import (
	"path"
	"regexp"
	"strings"
)

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
		if p := cleanPath(strings.TrimSpace(name)); ok && p != "" && !strings.Contains(p, expanded) {
			found = append(found, Access{Role: role, Path: p})
		}
	}
	return found
}

// joined puts relative paths behind the directory in which they are meant.
func joined(found []Access, dir string) []Access {
	for i := range found {
		if p := &found[i].Path; dir != "" && !path.IsAbs(*p) {
			*p = path.Join(dir, *p)
		}
	}
	return found
}

// Codex's code mode hands the model one tool whose input is a program that calls the others. Three forms of it are read, which are
// what models mostly write; any other program may do anything with what its calls return.
var (
	// A command: const r = await tools.exec_command({…}); text(r.output).
	execBegins = regexp.MustCompile(`^\s*(?:const|let|var)\s+(\w+)\s*=\s*await\s+tools\.(?:exec_command|shell_command)\(`)
	execEnds   = regexp.MustCompile(`^\)\s*;?\s*text\((?:JSON\.stringify\((\w+)\)|(\w+)(?:\.output)?)\)\s*;?\s*` +
		`(?:if\s*\(\w+\.session_id\)\s*text\([^()]*\)\s*;?\s*)?$`)
	// A patch: const patch = "…"; text(await tools.apply_patch(patch)), or text(await tools.apply_patch("…")).
	patchBegins = regexp.MustCompile(`^\s*(?:(?:const|let|var)\s+(\w+)\s*=\s*|text\(\s*await\s+tools\.apply_patch\()`)
	patchEnds   = regexp.MustCompile(`^\s*;?\s*(?:` +
		`text\(\s*await\s+tools\.apply_patch\((\w+)\)\s*\)|` +
		`(?:const|let|var)\s+(\w+)\s*=\s*await\s+tools\.apply_patch\((\w+)\)\s*;?\s*text\((\w+)\)|` +
		`\)\s*\))\s*;?\s*$`)
)

// runCode notes what a program does that is one command or one patch, and prints what that returned.
func runCode(f *CallFacts, program string) {
	if m := execBegins.FindStringSubmatchIndex(program); m != nil {
		input, rest, ok := jsObject(program[m[1]:])
		end := execEnds.FindStringSubmatch(rest)
		if !ok || end == nil || end[1]+end[2] != program[m[2]:m[3]] {
			return
		}
		f.Role = Shell
		if a, _ := argumentsOf(input, true, nil); !a.twice {
			f.run(a.commands())
		}
		return
	}
	m := patchBegins.FindStringSubmatchIndex(program)
	if m == nil {
		return
	}
	body, rest, ok := jsString(program[m[1]:])
	end := patchEnds.FindStringSubmatch(rest)
	if !ok || end == nil {
		return
	}
	var name string
	if m[2] >= 0 {
		name = program[m[2]:m[3]]
	}
	if end[1]+end[3] != name || end[2] != end[4] {
		return
	}
	f.Role = Edit
	f.name(patched(body), false)
}

// jsString reads the string literal at the start of a program: in double quotes as JSON has it, or a template without anything to
// expand.
func jsString(s string) (text, rest string, ok bool) {
	if strings.HasPrefix(s, "`") {
		text, rest, ok = strings.Cut(s[1:], "`")
		return text, rest, ok && !strings.Contains(text, `\`) && !strings.Contains(text, "${")
	}
	n := quotedLen(s)
	if n == 0 || !isJSON(s[:n]) {
		return "", s, false
	}
	return unquote(s[1 : n-1]), s[n:], true
}

// quotedLen is the length of the string literal in double quotes at the start, 0 if there is none.
func quotedLen(s string) int {
	if !strings.HasPrefix(s, `"`) {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// jsObject reads the object literal at the start of a program and returns it as JSON. Only values that JSON has are read.
func jsObject(s string) (object, rest string, ok bool) {
	var out strings.Builder
	depth := 0
	for i := 0; i < len(s); {
		n := 1
		switch c := s[i]; {
		case c == '"':
			if n = quotedLen(s[i:]); n == 0 {
				return "", s, false
			}
			out.WriteString(s[i : i+n])
		case isWord(c):
			for i+n < len(s) && isWord(s[i+n]) {
				n++
			}
			word := s[i : i+n]
			if strings.HasPrefix(strings.TrimLeft(s[i+n:], " \t\r\n"), ":") {
				word = `"` + word + `"`
			}
			out.WriteString(word)
		default:
			out.WriteByte(c)
			switch c {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
		}
		if i += n; depth == 0 {
			object = out.String()
			return object, s[i:], strings.HasPrefix(object, "{") && isJSON(object)
		}
	}
	return "", s, false
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
