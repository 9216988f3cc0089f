package transcript

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// plainWords is the text of words that hold nothing to expand.
func plainWords(args []*syntax.Word) (words []string, ok bool) {
	words = make([]string, len(args))
	for i, a := range args {
		if words[i], ok = word(a); !ok {
			return nil, false
		}
	}
	return words, true
}

// word is the text of a word that holds nothing to expand.
func word(w *syntax.Word) (string, bool) {
	var text strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if i == 0 && strings.HasPrefix(p.Value, "~") || !literal(&text, p.Value) {
				return "", false
			}
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			text.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok || p.Dollar || strings.Contains(lit.Value, `\`) {
					return "", false
				}
				text.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return text.String(), true
}

// literal writes unquoted text, unless a pattern stands in it.
func literal(text *strings.Builder, s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*', '?', '[', '{':
			return false
		case '\\':
			if i++; i == len(s) {
				return false
			}
		}
		text.WriteByte(s[i])
	}
	return true
}

// expanded stands in a here-document for what the shell puts there.
const expanded = "\x00"

// document is the text of a here-document.
func document(w *syntax.Word) string {
	if w == nil {
		return ""
	}
	var text strings.Builder
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			text.WriteString(lit.Value)
		} else {
			text.WriteString(expanded)
		}
	}
	return text.String()
}

// piped notes the read of one file whose content goes through commands that let a part of it pass. It reports whether the pipe is
// such a read. If the file cannot be read, the pipe succeeds all the same; then what it prints says so, unless errors are sent away.
func (w *shellWalk) piped(c *syntax.BinaryCmd) bool {
	var file string
	var parts []string
	stages := stagesOf(c)
	for i, s := range stages {
		call, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || s.Background || s.Negated || !onlyErrors(s.Redirs) {
			return false
		}
		words, ok := plainWords(call.Args)
		if !ok || len(words) == 0 {
			return false
		}
		name, part, ok := reading(words[0], words[1:])
		if !ok || (name == "") != (i > 0) {
			return false
		}
		if i == 0 {
			if file = name; !errorsShown(s.Redirs) {
				return false
			}
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	for _, s := range stages {
		w.writes(s)
	}
	w.add(Read, file, strings.Join(parts, " | "))
	return true
}

// errorsShown reports whether errors, if they are redirected, go where the output goes.
func errorsShown(redirs []*syntax.Redirect) bool {
	return !slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool { return r.Op != syntax.DplOut || r.Word.Lit() != "1" })
}

// stagesOf is the statements of a pipe of any length.
func stagesOf(c *syntax.BinaryCmd) []*syntax.Stmt {
	if x, ok := c.X.Cmd.(*syntax.BinaryCmd); ok && x.Op == syntax.Pipe && len(c.X.Redirs) == 0 && !c.X.Negated {
		return append(stagesOf(x), c.Y)
	}
	return []*syntax.Stmt{c.X, c.Y}
}

// reading tells which file a command prints, and which part of it; without a file, what it lets pass of its input.
func reading(name string, args []string) (file, part string, ok bool) {
	switch name {
	case "cat", "nl":
		flags, files := split(args)
		if len(files) > 1 {
			return "", "", false
		}
		return strings.Join(files, ""), strings.Join(flags, " "), true
	case "head", "tail":
		return endOf(name, args)
	case "sed":
		s := sedOf(args)
		if s.inPlace || !s.quiet || s.other || len(s.scripts) != 1 || len(s.files) > 1 || !sedPrint.MatchString(s.scripts[0]) {
			return "", "", false
		}
		return strings.Join(s.files, ""), "sed " + s.scripts[0], true
	}
	return "", "", false
}

func split(args []string) (flags, operands []string) {
	for i, a := range args {
		if a == "--" {
			return flags, append(operands, args[i+1:]...)
		}
		if strings.HasPrefix(a, "-") && a != "-" {
			flags = append(flags, a)
		} else {
			operands = append(operands, a)
		}
	}
	return flags, operands
}

// written is the operands of tee or truncate; some flags of truncate take a value.
func written(name string, args []string) (operands []string) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case name == "truncate" && slices.Contains([]string{"-s", "--size", "-r", "--reference"}, a):
			i++
		case !strings.HasPrefix(a, "-"):
			operands = append(operands, a)
		}
	}
	return operands
}

// endOf reads the arguments of head and tail of one file.
func endOf(name string, args []string) (file, part string, ok bool) {
	asked := []string{name}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-n" || a == "-c":
			if i++; i == len(args) {
				return "", "", false
			}
			asked = append(asked, a, args[i])
		case strings.HasPrefix(a, "-") && a != "-", strings.HasPrefix(a, "+"):
			asked = append(asked, a)
		case file == "":
			file = a
		default:
			return "", "", false
		}
	}
	return file, strings.Join(asked, " "), true
}

var (
	sedInPlace = regexp.MustCompile(`^(-[nErsuz]*i.*|--in-place(=.*)?)$`)
	sedPrint   = regexp.MustCompile(`^((\d+|\$)(,(\d+|\$))?p;?\s*)+$`)
	patchPlain = regexp.MustCompile(`^(-p\d+|-[RNEflstu]+|--forward|--reverse|--silent|--quiet|--batch)$`)
)

// sedCall is what the arguments of sed say.
type sedCall struct {
	inPlace, quiet bool
	other          bool // a flag that may say what a line is, or what follows it
	scripts, files []string
}

func sedOf(args []string) (s sedCall) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case sedInPlace.MatchString(a):
			if s.inPlace = true; i+1 < len(args) && args[i+1] == "" {
				i++ // the suffix that BSD's sed wants
			}
		case a == "-e" || a == "-f" || a == "--expression" || a == "--file":
			if i++; i < len(args) {
				s.scripts = append(s.scripts, args[i])
			}
		case strings.HasPrefix(a, "--expression=") || strings.HasPrefix(a, "--file="):
			s.scripts = append(s.scripts, a)
		case strings.HasPrefix(a, "-"):
			quiet := slices.Contains([]string{"-n", "--quiet", "--silent"}, a)
			s.quiet = s.quiet || quiet
			s.other = s.other || !quiet && !slices.Contains([]string{"-E", "-r", "-u", "--"}, a)
		default:
			s.files = append(s.files, a)
		}
	}
	if len(s.scripts) == 0 && len(s.files) > 0 {
		s.scripts, s.files = s.files[:1], s.files[1:]
	}
	return s
}

// edited is the files that a sed changes in place.
func (s sedCall) edited() []string {
	if !s.inPlace {
		return nil
	}
	return s.files
}

// patchedFile is the file that patch is told to change; with other flags it may write elsewhere or not at all.
func patchedFile(args []string) string {
	flags, files := split(args)
	if len(files) == 0 || slices.ContainsFunc(flags, func(f string) bool { return !patchPlain.MatchString(f) }) {
		return ""
	}
	return files[0]
}
