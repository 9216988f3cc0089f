package transcript

import (
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is handed to the shell parser: a longer command is a script, one within one within one is nobody's, and the time
// that the parser takes grows with the square of how deep brackets stand within brackets, and clauses within clauses.
const (
	maxCommand = 8192
	maxShells  = 2
	maxDepth   = 32
	maxClauses = 256
)

// clauses begin what may stand within itself.
var clauses = []string{"if", "while", "until", "case"}

// parsers are used again: a new one costs more than a short command.
var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// shellHints are the words of which a command holds one if it does anything that counts.
var shellHints = []string{">", "cat", "nl", "head", "tail", "sed", "tee", "truncate", "patch"}

// runCommand lists what a command that succeeds does to files, as far as its text proves it: reads of one file, whole or in part,
// by cat, sed -n, head, tail or nl, also one behind the other, if nothing else prints; writes by >, >>, tee, sed -i, patch,
// truncate and apply_patch. Scripts, make, git apply and generators are not counted, nor what stands in branches, loops and
// functions: what they do is not in the command. Relative paths are joined to dir, the directory that the call names, if any;
// behind a cd they count where it is sure where it led. alone says that the call runs no other command; patch that the command is
// nothing but an apply_patch.
func runCommand(command, dir string, alone bool) (found []Access, patch bool) {
	w := shellWalk{dir: dir}
	w.run(command, alone)
	return w.found, w.patch
}

// shellWalk collects what statements do.
type shellWalk struct {
	dir    string // where relative paths begin; if empty, where the client's shell is
	lost   bool   // a cd may have led anywhere
	patch  bool
	shells int
	found  []Access
}

func (w *shellWalk) run(command string, alone bool) {
	if len(command) > maxCommand || !slices.ContainsFunc(shellHints, func(h string) bool { return strings.Contains(command, h) }) || deep(command) {
		return
	}
	parser := parsers.Get().(*syntax.Parser) //nolint:forcetypeassert // there is nothing else in it
	file, err := parser.Parse(strings.NewReader(command), "")
	parsers.Put(parser)
	if err == nil {
		w.stmts(file.Stmts, alone && len(file.Stmts) == 1)
	}
}

// deep reports whether brackets or clauses may stand too deep within each other. Quotes and the ends of words are not looked at:
// what they hold counts too.
func deep(command string) bool {
	opened := 0
	for _, c := range clauses {
		opened += strings.Count(command, c)
	}
	if opened > maxClauses {
		return true
	}
	depth := 0
	for i := range len(command) {
		switch command[i] {
		case '(', '{':
			if depth++; depth > maxDepth {
				return true
			}
		case ')', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

func (w *shellWalk) add(role ToolRole, p string, part string) {
	switch {
	case p == "" || p == "-" || strings.HasPrefix(p, "/dev/"):
		return
	case path.IsAbs(p):
	case w.lost:
		return
	case w.dir != "":
		p = path.Join(w.dir, p)
	}
	w.found = append(w.found, Access{Role: role, Path: cleanPath(p), Range: Range{From: part}})
}

// stmts walks statements that run one after the other, whether or not the one before succeeded.
func (w *shellWalk) stmts(list []*syntax.Stmt, alone bool) {
	for _, s := range list {
		dir := w.dir
		w.stmt(s, alone)
		w.lost = w.lost || w.dir != dir
	}
}

// stmt walks a statement that runs if the whole command succeeds. alone says that its output is that of the call.
func (w *shellWalk) stmt(s *syntax.Stmt, alone bool) {
	w.writes(s)
	alone = alone && !s.Background && !s.Negated
	dir, lost := w.dir, w.lost
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		w.call(c, s.Redirs, alone)
	case *syntax.BinaryCmd:
		w.binary(c, alone && len(s.Redirs) == 0)
	case *syntax.Subshell:
		w.stmts(c.Stmts, false)
		w.dir, w.lost = dir, lost
	case *syntax.Block:
		w.stmts(c.Stmts, false)
	case *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.FuncDecl, *syntax.TimeClause:
		w.lost = true // there may be a cd in it
	}
	if s.Background {
		w.dir, w.lost = dir, lost
	}
}

// binary walks two statements that are joined by &&, || or a pipe. Behind a cd that succeeded, what follows is where it led.
func (w *shellWalk) binary(c *syntax.BinaryCmd, alone bool) {
	dir, lost := w.dir, w.lost
	switch c.Op {
	case syntax.AndStmt:
		w.stmt(c.X, false)
		w.stmt(c.Y, alone && silent(c.X))
	case syntax.OrStmt:
		w.stmt(c.X, false)
		w.lost = w.lost || w.dir != dir || cds(c.Y)
	default: // each side of a pipe is a shell of its own
		if alone && c.Op == syntax.Pipe && w.piped(c) {
			return
		}
		w.stmt(c.X, false)
		w.dir, w.lost = dir, lost
		w.stmt(c.Y, false)
		w.dir, w.lost = dir, lost
	}
}

// cds reports whether a statement may be a cd, or hold one.
func cds(s *syntax.Stmt) bool {
	c, ok := s.Cmd.(*syntax.CallExpr)
	return !ok || len(c.Args) == 0 || moves(c.Args[0].Lit())
}

// moves reports whether a command may change the directory of its shell; none is a word that the text does not tell.
func moves(command string) bool {
	switch command {
	case "cd", "pushd", "popd", "source", ".", "eval", "builtin", "command", "":
		return true
	}
	return false
}

// silent reports whether a statement prints nothing if it succeeds.
func silent(s *syntax.Stmt) bool {
	if len(s.Redirs) > 0 || s.Background || s.Negated {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		return c.Op == syntax.AndStmt && silent(c.X) && silent(c.Y)
	case *syntax.CallExpr:
		words, ok := plainWords(c.Args)
		if !ok || len(words) == 0 {
			return false
		}
		switch words[0] {
		case "cd":
			return words[len(words)-1] != "-"
		case "set": // with n nothing runs
			return len(words) > 1 && !strings.Contains(strings.Join(words[1:], ""), "n")
		case "true", ":":
			return true
		}
	}
	return false
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
				w.add(Write, p, "")
			}
		default:
		}
	}
}

// call lists what a simple command does; alone says that its output is that of the whole call, but for redirections.
func (w *shellWalk) call(call *syntax.CallExpr, redirs []*syntax.Redirect, alone bool) {
	if len(call.Args) == 0 {
		return
	}
	words, ok := plainWords(call.Args)
	if !ok {
		w.lost = w.lost || moves(call.Args[0].Lit())
		return
	}
	name, args := words[0], words[1:]
	if alone && onlyErrors(redirs) {
		if file, part, ok := reading(name, args); ok && file != "" {
			w.add(Read, file, part)
			return
		}
	}
	switch {
	case moves(name):
		w.cd(name, args)
	case name == "sed":
		for _, p := range sedOf(args).edited() {
			w.add(Edit, p, "")
		}
	case name == "tee" || name == "truncate":
		for _, p := range written(name, args) {
			w.add(Write, p, "")
		}
	case name == "patch":
		w.add(Edit, patchedFile(args), "")
	case isPatchTool(name):
		w.applies(args, redirs, alone)
	case isShell(name):
		w.script(args, alone && onlyErrors(redirs))
	}
}

// cd follows a change of directory as far as the text tells where it leads.
func (w *shellWalk) cd(name string, args []string) {
	_, dirs := split(args)
	switch {
	case name != "cd" || len(dirs) != 1 || dirs[0] == "" || dirs[0] == "-":
		w.lost = true
	case path.IsAbs(dirs[0]):
		w.dir, w.lost = path.Clean(dirs[0]), false
	case path.IsAbs(w.dir):
		w.dir = path.Join(w.dir, dirs[0])
	default: // a shell that outlives the call may be anywhere
		w.lost = true
	}
}

// script walks what a shell within the shell is told to run.
func (w *shellWalk) script(args []string, alone bool) {
	i := slices.IndexFunc(args, isScriptFlag)
	if i < 0 || i+2 != len(args) || w.shells == maxShells || slices.ContainsFunc(args[:i], func(a string) bool { return !strings.HasPrefix(a, "-") }) {
		return
	}
	dir, lost := w.dir, w.lost
	w.shells++
	w.run(args[i+1], alone)
	w.shells--
	w.dir, w.lost = dir, lost
}

// applies notes the files of a patch that is handed to apply_patch, as a word or as a here-document.
func (w *shellWalk) applies(args []string, redirs []*syntax.Redirect, alone bool) {
	var body string
	w.patch = alone
	for _, r := range redirs {
		switch {
		case r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc:
			body = document(r.Hdoc)
		case r.N == nil || r.N.Value != "2":
			w.patch = false
		}
	}
	if len(args) == 1 {
		body = args[0]
	}
	for _, a := range patched(body) {
		w.add(a.Role, a.Path, "")
	}
}
