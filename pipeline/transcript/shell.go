package transcript

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxCommand bounds what is handed to the shell parser; a longer command is a script.
const maxCommand = 4096

// shellHints are the words of which a command holds one if it does anything that counts.
var shellHints = []string{">", "cat", "nl", "head", "tail", "sed", "tee", "truncate", "patch"}

// shellAccess lists what a command that succeeds does to files, as far as its text proves it: reads of one file by cat,
// sed -n, head, tail or nl, if nothing else prints; writes by >, >>, tee, sed -i, patch and truncate. Scripts, make,
// git apply and generators are not counted, nor what stands in branches, loops and functions: what they do is not in the
// command. Relative paths are joined to dir, the directory that the call names, if any; behind a cd they are left out.
// alone says that the call runs no other command.
func shellAccess(command, dir string, alone bool) []Access {
	if len(command) > maxCommand || !slices.ContainsFunc(shellHints, func(h string) bool { return strings.Contains(command, h) }) {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil
	}
	w := shellWalk{dir: dir}
	for _, s := range file.Stmts {
		w.stmt(s, alone && len(file.Stmts) == 1)
	}
	return w.found
}

// shellWalk collects what statements do.
type shellWalk struct {
	dir   string
	moved bool // a cd makes relative paths mean something else
	found []Access
}

func (w *shellWalk) add(role ToolRole, p string, part ...string) {
	switch {
	case p == "" || p == "-" || strings.HasPrefix(p, "/dev/"):
		return
	case path.IsAbs(p):
	case w.moved:
		return
	case w.dir != "":
		p = path.Join(w.dir, p)
	}
	w.found = append(w.found, Access{Role: role, Path: cleanPath(p), Range: Range{From: strings.Join(part, " ")}})
}

// stmt walks a statement that runs if the whole command succeeds. alone says that its output is that of the call.
func (w *shellWalk) stmt(s *syntax.Stmt, alone bool) {
	w.writes(s)
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(c, alone && !s.Background && onlyErrors(s.Redirs))
	case *syntax.BinaryCmd:
		w.stmt(c.X, false)
		if c.Op != syntax.OrStmt {
			w.stmt(c.Y, false)
		}
	case *syntax.Subshell:
		w.stmts(c.Stmts)
	case *syntax.Block:
		w.stmts(c.Stmts)
	}
}

func (w *shellWalk) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		w.stmt(s, false)
	}
}

// onlyErrors reports whether redirections leave input and output alone.
func onlyErrors(redirs []*syntax.Redirect) bool {
	return !slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool { return r.N == nil || r.N.Value != "2" })
}

// writes lists the files that the redirections of a statement write.
func (w *shellWalk) writes(s *syntax.Stmt) {
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
			if p, ok := word(r.Word); ok {
				w.add(Write, p)
			}
		default:
		}
	}
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

// call lists what a simple command does; reads says whether its output is that of the whole call.
func (w *shellWalk) call(call *syntax.CallExpr, reads bool) {
	words := make([]string, 0, len(call.Args))
	for _, a := range call.Args {
		text, ok := word(a)
		if !ok {
			return
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return
	}
	switch name, args := words[0], words[1:]; name {
	case "cd", "pushd", "popd":
		w.moved = true
	case "cat", "nl":
		if flags, files := split(args); reads && len(files) == 1 {
			w.add(Read, files[0], flags...)
		}
	case "head", "tail":
		if reads {
			w.part(name, args)
		}
	case "sed":
		w.sed(args, reads)
	case "tee", "truncate":
		for _, p := range written(name, args) {
			w.add(Write, p)
		}
	case "patch":
		w.patch(args)
	}
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

// part reads head and tail of one file.
func (w *shellWalk) part(name string, args []string) {
	var file string
	asked := []string{name}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case (a == "-n" || a == "-c") && i+1 < len(args):
			asked = append(asked, a, args[i+1])
			i++
		case strings.HasPrefix(a, "-"), strings.HasPrefix(a, "+"):
			asked = append(asked, a)
		case file == "":
			file = a
		default:
			return
		}
	}
	w.add(Read, file, asked...)
}

var (
	sedInPlace = regexp.MustCompile(`^(-[nErsuz]*i.*|--in-place(=.*)?)$`)
	sedPrint   = regexp.MustCompile(`^(\d+|\$)(,(\d+|\$))?p$`)
	patchPlain = regexp.MustCompile(`^(-p\d+|-[RNEflstu]+|--forward|--reverse|--silent|--quiet|--batch)$`)
)

// sed reads with -n and one print of lines by number, and edits with -i.
func (w *shellWalk) sed(args []string, reads bool) {
	var scripts, files []string
	inPlace, quiet := false, false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case sedInPlace.MatchString(a):
			if inPlace = true; i+1 < len(args) && args[i+1] == "" {
				i++ // the suffix that BSD's sed wants
			}
		case a == "-e" || a == "-f" || a == "--expression" || a == "--file":
			if i++; i < len(args) {
				scripts = append(scripts, args[i])
			}
		case strings.HasPrefix(a, "--expression=") || strings.HasPrefix(a, "--file="):
			scripts = append(scripts, a)
		case strings.HasPrefix(a, "-"):
			quiet = quiet || a == "-n" || a == "--quiet" || a == "--silent"
		default:
			files = append(files, a)
		}
	}
	if len(scripts) == 0 && len(files) > 0 {
		scripts, files = files[:1], files[1:]
	}
	switch {
	case inPlace:
		for _, p := range files {
			w.add(Edit, p)
		}
	case reads && quiet && len(scripts) == 1 && len(files) == 1 && sedPrint.MatchString(scripts[0]):
		w.add(Read, files[0], "sed", scripts[0])
	}
}

// patch edits the file that it names; with other flags it may write elsewhere or not at all.
func (w *shellWalk) patch(args []string) {
	flags, files := split(args)
	if len(files) > 0 && !slices.ContainsFunc(flags, func(f string) bool { return !patchPlain.MatchString(f) }) {
		w.add(Edit, files[0])
	}
}
