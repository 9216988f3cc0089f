package transcript

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What commands do to files: r, w and e for read, write and edit, then the path, then the part in brackets.
var commands = []struct{ command, does string }{
	// Reads of one file.
	{"cat a.go", "r a.go"},
	{"cat ./src//a.go", "r src/a.go"},
	{"cat '/tmp/a b.go'", "r /tmp/a b.go"},
	{`cat "a b.go"`, "r a b.go"},
	{`cat a\ b.go`, "r a b.go"},
	{"cat -n a.go", "r a.go [-n]"},
	{"cat -- -n", "r -n"},
	{"cat a.go 2>/dev/null", "r a.go"},
	{"cat a.go 2>&1", "r a.go"},
	{"cat 'app/[id]/page.tsx'", "r app/[id]/page.tsx"},
	{`cat app/\[id\]/page.tsx`, "r app/[id]/page.tsx"},
	{"nl -ba a.go", "r a.go [-ba]"},
	{"LANG=C cat a.go", "r a.go"},
	{"cat a.go # look", "r a.go"},
	{"head a.go", "r a.go [head]"},
	{"head -n 20 a.go", "r a.go [head -n 20]"},
	{"head -20 a.go", "r a.go [head -20]"},
	{"head -c 100 a.go", "r a.go [head -c 100]"},
	{"tail a.go", "r a.go [tail]"},
	{"tail -n +5 a.go", "r a.go [tail -n +5]"},
	{"tail +5 a.go", "r a.go [tail +5]"},
	{"sed -n 1,40p a.go", "r a.go [sed 1,40p]"},
	{"sed -n '1,40p' a.go", "r a.go [sed 1,40p]"},
	{"sed -n -e 7p a.go", "r a.go [sed 7p]"},
	{"sed -n '5,$p' a.go", "r a.go [sed 5,$p]"},
	{"sed --quiet 7p a.go", "r a.go [sed 7p]"},
	{"sed -n '1,5p;9p' a.go", "r a.go [sed 1,5p;9p]"},
	// One command lets a part of what the other prints pass.
	{"cat a.go | head -5", "r a.go [head -5]"},
	{"nl -ba src/a.go | sed -n '1,40p'", "r src/a.go [-ba | sed 1,40p]"},
	{"cat a.go | sed -n '1,40p'", "r a.go [sed 1,40p]"},
	{"cat a.go | head -50 2>/dev/null | tail -n 20", "r a.go [head -50 | tail -n 20]"},
	{"cat a.go 2>&1 | head 2> err", "w err; r a.go [head]"},
	{"set -euo pipefail && cat a.go", "r a.go"},
	{"sed -n '1,200p' a.go | cat -A", "r a.go [sed 1,200p | -A]"},
	// A shell within the shell.
	{"bash -c 'cat a.go'", "r a.go"},
	{"/bin/bash -lc 'sed -n 1,5p a.go'", "r a.go [sed 1,5p]"},
	{"zsh -l -c 'cat a.go | head'", "r a.go [head]"},
	{"sh -c 'echo x > a.go'", "w a.go"},
	{"bash -c \"bash -c 'cat a.go'\"", "r a.go"},
	{"cat a.go > /dev/null; bash -c 'cd /x; echo > y'; echo > z", "w z"},
	// Behind a cd.
	{"cd /w && cat a.go", "r /w/a.go"},
	{"cd /w && cat ../a.go", "r /a.go"},
	{"cd /w && cat /a.go", "r /a.go"},
	{"cd /w && cd src && cat a.go", "r /w/src/a.go"},
	{"set -e && cd -- /w && sed -n 1,5p a.go", "r /w/a.go [sed 1,5p]"},
	{"cd /w && nl -ba a.go | sed -n 5,9p", "r /w/a.go [-ba | sed 5,9p]"},
	{"cd '/w x' && cat > a.py <<'EOF'\nprint()\nEOF", "w /w x/a.py"},
	{"cd /w && echo x > a && echo y > b", "w /w/a; w /w/b"},
	{"cd /w && git diff > a.patch && cat a.patch", "w /w/a.patch"},
	{"(cd /w && echo x > a); echo y > b", "w /w/a; w b"},
	{"cd /w & echo y > b", "w b"},
	{"cd /w | cat; echo y > b", "w b"},
	{"cd /w && (cd /x; echo > y)", ""},
	// A cd that may have failed, or led anywhere.
	{"cd /w; cat a.go", ""},
	{"cd /w; cat /a.go", ""},
	{"cd /w\necho x > a.go", ""},
	{"cd /w && ls; echo x > a.go", ""},
	{"cd /w || echo x > a.go", ""},
	{"cd /w || cd /x; echo x > a.go", ""},
	{"true || cd /x; echo x > a.go", ""},
	{"cd /w && cd - && cat a.go", ""},
	{"cd /w && cd - && cat /a.go", ""},
	{"cd && cat a.go", ""},
	{"cd ~/w && cat a.go", ""},
	{"cd $W && cat a.go", ""},
	{"cd \"$W\" && echo x > a.go", ""},
	{"cd src && cat /a.go", "r /a.go"},
	{"cd /w && cd $X && cat a.go", ""},
	{"pushd /w && cat /a.go", ""},
	{". env.sh && cat a.go", ""},
	{"eval x; echo > a.go", ""},
	{"$X && echo > a.go", ""},
	{"if a; then cd /w; fi; echo > a.go", ""},
	{"f() { cd /w; }; f; echo > a.go", ""},
	{"cd /w && ls && cat a.go", ""},
	{"cd /w && ls > l && cat a.go", "w /w/l"},
	// Patches.
	{"apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.go\n@@\n-x\n+$y\n*** Add File: b.go\n*** End Patch\nEOF", "e a.go; w b.go"},
	{"apply_patch <<EOF\n*** Update File: $F\n*** Update File: b.go\n+`x`\nEOF", "e b.go"},
	{"cd /w && apply_patch <<-'P'\n*** Update File: a.go\nP", "e /w/a.go"},
	{"cd $W && apply_patch <<'P'\n*** Update File: a.go\n*** Update File: /b.go\nP", "e /b.go"},
	{"applypatch '*** Update File: a.go'", "e a.go"},
	{"apply_patch < a.patch", ""},
	{"apply_patch", ""},
	// Reads of nothing, of several files, or of what is no file.
	{"cat", ""},
	{"cat -", ""},
	{"cat a.go b.go", ""},
	{"cat *.go", ""},
	{"cat a?.go", ""},
	{"cat [ab].go", ""},
	{"cat {a,b}.go", ""},
	{"cat ~/a.go", ""},
	{"cat $F", ""},
	{`cat "$F"`, ""},
	{"cat ${F}.go", ""},
	{"cat $(ls)", ""},
	{"cat `ls`", ""},
	{"cat <(ls)", ""},
	{`cat $'a\nb'`, ""},
	{`cat $"a"`, ""},
	{`cat "a\"b"`, ""},
	{"cat /dev/stdin", ""},
	{"cat ''", ""},
	{"cat < a.go", ""},
	{"cat <<< a.go", ""},
	{"cat <<EOF\na.go\nEOF", ""},
	{"cat a.go | head -5 > b.go", "w b.go"},
	{"cat a.go | head -5 b.go", ""},
	{"cat a.go b.go | head -5", ""},
	{"cat | head -5", ""},
	{"cat a.go | grep x", ""},
	{"cat a.go | sort | head", ""},
	{"cat $F | head", ""},
	{"cat a.go | head $N", ""},
	{"! cat a.go", ""},
	{"! cat a.go | head", ""},
	{"cat a.go |& head", ""},
	{"time cat a.go", ""},
	{"git show HEAD:a.go | sed -n 1,5p", ""},
	// If there is no a.go, nothing says so.
	{"cat a.go 2>/dev/null | head -50", ""},
	{"cat a.go 2> err | head", "w err"},
	{"cat a.go 2>&- | head", ""},
	// What a line is, or what follows a flag, is another thing.
	{"sed -z -n 1p a.go", ""},
	{"sed -n -l 5 1p a.go", ""},
	// Nothing runs.
	{"bash -nc 'cat a.go'", ""},
	{"set -n && cat a.go", ""},
	{"set -o noexec && cat a.go", ""},
	{"cat a.go | tee", ""},
	{"ls | cat a.go", ""},
	{"cat a.go; cat b.go", ""},
	{"cat a.go && cat b.go", ""},
	{"cat a.go || true", ""},
	{"cd src && cat a.go", ""},
	{"cat a.go &", ""},
	{"(cat a.go)", ""},
	{"{ cat a.go; }", ""},
	{"if true; then cat a.go; fi", ""},
	{"for f in a b; do cat a.go; done", ""},
	{"f() { cat a.go; }", ""},
	{"sudo cat a.go", ""},
	{"xargs cat a.go", ""},
	{"bash -c 'cat a.go' b.go", ""},
	{"bash -c \"cat $F\"", ""},
	{"bash a.sh", ""},
	{"bash -x a.sh -c 'cat a.go'", ""},
	{"bash -c \"bash -c \\\"bash -c 'cat a.go'\\\"\"", ""},
	{"python -c 'cat a.go'", ""},
	{"/bin/cat a.go", ""},
	{"echo cat a.go", ""},
	{"zcat a.gz", ""},
	{"bat a.go", ""},
	{"head", ""},
	{"head -n 5", ""},
	{"head a.go b.go", ""},
	{"head -n", ""},
	{"tail -n 5 a.go | wc -l", ""},
	{"sed -n 1,5p", ""},
	{"sed 1,5p a.go", ""},
	{"sed -n '/x/p' a.go", ""},
	{"sed -n 's/x/y/p' a.go", ""},
	{"sed -n '1,5p;/x/p' a.go", ""},
	{"sed -n 1,5p a.go b.go", ""},
	{"sed -n -e 1p -e 2p a.go", ""},
	{"sed", ""},
	{"sed -n", ""},
	{"sed -n $A,5p a.go", ""},
	// Writes.
	{"echo x > a.go", "w a.go"},
	{"echo x >> a.go", "w a.go"},
	{"echo x >| a.go", "w a.go"},
	{"make &> log", "w log"},
	{"make &>> log", "w log"},
	{"make > log 2>&1", "w log"},
	{"make 2> err", "w err"},
	{"> a.go", "w a.go"},
	{"cat a.go > b.go", "w b.go"},
	{"cat > a.go <<'EOF'\ntext > no.go\nEOF", "w a.go"},
	{"cat a.go 2> err", "w err; r a.go"},
	{"echo x | tee a.go b.go", "w a.go; w b.go"},
	{"echo x | tee -a a.go > /dev/null", "w a.go"},
	{"truncate -s 0 a.go", "w a.go"},
	{"truncate --size=0 a.go b.go", "w a.go; w b.go"},
	{"truncate --size 0 a.go", "w a.go"},
	{"truncate -r ref a.go", "w a.go"},
	{"a > x; b > y", "w x; w y"},
	{"a > x && b > y", "w x; w y"},
	{"(a > x; b) > y", "w y; w x"},
	{"{ a > x; }", "w x"},
	{"! a > x", "w x"},
	{"a > x | b > y", "w x; w y"},
	{"echo x > /tmp/../a.go", "w /a.go"},
	{"a > x || b > y", "w x"},
	{"mkdir -p d && echo x > d/a", "w d/a"},
	// Writes that the text does not prove.
	{"echo x > $F", ""},
	{"echo x > *.go", ""},
	{"echo x > /dev/null", ""},
	{"echo x >&2", ""},
	{"echo x > ''", ""},
	{"tee", ""},
	{"tee $F", ""},
	{"false || echo x > a.go", ""},
	{"if a; then b > x; fi", ""},
	{"while a; do b > x; done", ""},
	{"case a in a) b > x;; esac", ""},
	{"f() { a > x; }", ""},
	{"echo $(a > x)", ""},
	{"cd src && echo x > a.go", ""},
	{"cd src && echo x > /a.go", "w /a.go"},
	{"pushd src; tee a.go", ""},
	{"python - <<EOF\nopen('a','w')\nEOF", ""},
	// Edits.
	{"sed -i s/x/y/ a.go", "e a.go"},
	{"sed -i.bak 's/x/y/' a.go b.go", "e a.go; e b.go"},
	{"sed -i '' 's/x/y/' a.go", "e a.go"},
	{"sed -i -e s/x/y/ -e s/a/b/ a.go", "e a.go"},
	{"sed -Ei s/x/y/ a.go", "e a.go"},
	{"sed --in-place=.bak s/x/y/ a.go", "e a.go"},
	{"sed --expression=s/x/y/ -i a.go", "e a.go"},
	{"sed -i -f script.sed a.go", "e a.go"},
	{"sed -i s/x/y/", ""},
	{"sed -i", ""},
	{"sed -e", ""},
	{"sed -i \"s/$A/b/\" a.go", ""},
	{"patch a.go < a.diff", "e a.go"},
	{"patch a.go a.diff", "e a.go"},
	{"patch -p1 -R a.go < d", "e a.go"},
	{"patch -p1 < a.diff", ""},
	{"patch -p1 -i a.diff", ""},
	{"patch --dry-run a.go d", ""},
	{"patch -o out a.go d", ""},
	{"patch", ""},
	// What writes as it likes.
	{"git apply a.diff", ""},
	{"git checkout a.go", ""},
	{"make patch", ""},
	{"./patch.sh a.go", ""},
	{"python fix.py a.go", ""},
	{"perl -pi -e s/x/y/ a.go", ""},
	{"mv a.go b.go", ""},
	{"rm a.go", ""},
	{"go generate ./...", ""},
	{"npm run patch -- a.go", ""},
	{"sponge a.go", ""},
	// No commands.
	{"", ""},
	{">", ""},
	{"cat 'a", ""},
	{"cat a.go )", ""},
	{"sed -n 1,5p a.go {", ""},
	{"\x00cat", ""},
	{"tee \\", ""},
	{"X=cat", ""},
}

func does(found []Access) string {
	words := make([]string, len(found))
	for i, a := range found {
		words[i] = map[ToolRole]string{Read: "r ", Write: "w ", Edit: "e "}[a.Role] + a.Path
		if a.Range.From != "" {
			words[i] += " [" + a.Range.From + "]"
		}
	}
	return strings.Join(words, "; ")
}

func TestShell(t *testing.T) {
	for _, c := range commands {
		if got := does(shellAccess(c.command, "", true)); got != c.does {
			t.Errorf("%q does %q, not %q", c.command, got, c.does)
		}
	}
	if got := shellAccess("cat a.go #"+strings.Repeat("x", maxCommand), "", true); got != nil {
		t.Errorf("a script does %q", does(got))
	}
}

// The command is where the client puts it, and runs where the client says.
func TestShellArguments(t *testing.T) {
	for _, c := range []struct{ name, input, does string }{
		{"Bash", `{"command":"cat a.go"}`, "r a.go"},
		{"exec_command", `{"cmd":"cat a.go","workdir":"/w"}`, "r /w/a.go"},
		{"run_command", `{"CommandLine":"cat /a.go","cwd":"/w"}`, "r /a.go"},
		{"Shell", `{"command":"echo > ../a","working_directory":"/w/x"}`, "w /w/a"},
		{"run_shell_command", `{"command":"cat a.go","dir_path":"src"}`, "r src/a.go"},
		{"shell", `{"command":["bash","-lc","cat a.go"]}`, "r a.go"},
		{"shell", `{"command":["/bin/sh","-c","sed -n 1,5p a.go"]}`, "r a.go [sed 1,5p]"},
		{"shell", `{"command":["cat","a b.go"]}`, "r a b.go"},
		{"shell", `{"command":["git","commit","-m","cat a.go"]}`, ""},
		{"shell", `{"command":["echo","x",">","a.go"]}`, ""},
		{"shell", `{"command":["python","-c","cat a.go"]}`, ""},
		{"shell", `{"command":["cat","\u0000"]}`, ""},
		{"shell", `{"command":[["cat","a"]]}`, ""},
		{"run_commands", `{"commands":["cat a.go"]}`, "r a.go"},
		{"run_commands", `{"commands":["cat a.go","echo > b.go","cd x",7]}`, "w b.go"},
		{"mcp__x__bash", `{"command":"cat a.go"}`, "r a.go"},
		{"PowerShell", `{"command":"cat a.go"}`, ""},
		{"Bash", `{"command":"cat a.go","command":"cat b.go"}`, ""},
		{"Bash", `{"command":"c\u0061t \u0061.go"}`, "r a.go"},
		{"Read", `{"command":"cat a.go"}`, ""},
		{"unknown", `{"command":"cat a.go"}`, ""},
		{"bash", `{"command":"cd src && cat a.go","workdir":"/w"}`, "r /w/src/a.go"},
		{"bash", `{"command":"cd src && cat a.go","workdir":"w"}`, ""},
		{"run_commands", `{"commands":[{"command":"cat","args":["a b.go"]}]}`, "r a b.go"},
		{"run_commands", `{"command":"cat","args":["a.go"]}`, "r a.go"},
		{"run_commands", `{"commands":[{"command":"echo","args":["x",">","a.go"]}]}`, ""},
		{"run_commands", `{"commands":[{"command":"cat","args":["a"],"args":["b"],"command":"tee"}]}`, ""},
		{"local_shell_call", `{"type":"exec","command":["cat","a.go"],"working_directory":"/w"}`, "r /w/a.go"},
		{"shell_call", `{"commands":["cd /w && sed -n 1,5p a.go"]}`, "r /w/a.go [sed 1,5p]"},
		{"exec", `{"cmd":"cat a.go"}`, "r a.go"},
	} {
		ix := parse(t, fmt.Appendf(nil, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":%q,"input":%s}]}]}`, c.name, c.input))
		f := ix.CallFacts(0)
		if got := does(f.Shell); got != c.does {
			t.Errorf("%s%s does %q, not %q", c.name, c.input, got, c.does)
		}
		if diff := gocmp.Diff([]Access(nil), f.Files, cmpopts.EquateEmpty(), cmpopts.EquateComparable(Range{})); diff != "" {
			t.Errorf("%s%s names files: %s", c.name, c.input, diff)
		}
		ix.Release()
	}
}

// A command that is handed over as a text is the same as in an argument.
// Commands whose parts stand too deep within each other are not read: the parser's time would grow with the square of that.
func TestDeepCommands(t *testing.T) {
	for _, open := range []string{"(", "((", "$(", "${a:-", "a() { ", "if ", "while ", "until ", "case a in a) "} {
		for n, want := range map[int]bool{4: false, 600: true} {
			if got := deep(strings.Repeat(open, n) + "cat a"); got != want {
				t.Errorf("%d times %q is deep: %v", n, open, got)
			}
		}
	}
	long := strings.Repeat("f(x) { a[(1)] }\n", 200)
	if got := does(shellAccess("cat > a.go <<'EOF'\n"+long+"EOF\n", "", true)); got != "w a.go" {
		t.Errorf("a document with brackets: %q", got)
	}
}

func TestShellText(t *testing.T) {
	for _, c := range commands {
		if c.command == "" || c.command[0] == '>' {
			continue
		}
		if got := does(factsOf("bash", c.command).Shell); got != c.does && factsOf("bash", c.command).Role == Shell {
			t.Errorf("%q does %q, not %q", c.command, got, c.does)
		}
	}
}

// Programs of Codex's code mode: what they do, or that nobody knows.
func TestCode(t *testing.T) {
	const patch = `"*** Begin Patch\n*** Update File: a.go\n"`
	for program, want := range map[string]string{
		`const r = await tools.exec_command({cmd:"cat a.go","workdir":"/w",yield_time_ms:1000,tty:false}); text(r.output)`:           "shell r /w/a.go",
		"const r = await tools.exec_command({cmd: \"cat a.go\"});\ntext(r.output);\nif (r.session_id) text(`id=${r.session_id}`);\n": "shell r a.go",
		`let x=await tools.exec_command({cmd:"cat \"a b\""});text(JSON.stringify(x));`:                                               "shell r a b",
		`const r = await tools.shell_command({command:"echo x > a.go"}); text(r)`:                                                    "shell w a.go",
		`const r = await tools.exec_command({cmd:"ls"}); text(r.output)`:                                                             "shell ",
		`const r = await tools.exec_command({cmd:"cat a.go"}); text(q.output)`:                                                       "other ",
		`const r = await tools.exec_command({cmd:"cat a.go"}); text(r.output.slice(5))`:                                              "other ",
		`const r = await tools.exec_command({cmd:"cat a.go"}); text(r.output); await tools.exec_command({cmd:"x"})`:                  "other ",
		`const r = await tools.exec_command({cmd:'cat a.go'}); text(r.output)`:                                                       "other ",
		"const r = await tools.exec_command({cmd:`cat ${f}`}); text(r.output)":                                                       "other ",
		`const r = await tools.exec_command({cmd:"cat a.go"+f}); text(r.output)`:                                                     "other ",
		`const r = await tools.exec_command({cmd:"cat a.go",cmd:"cat b.go"}); text(r.output)`:                                        "shell ",
		`const r = await tools.exec_command({cmd:"cat a.go"`:                                                                         "other ",
		`const r = await tools.exec_command(x); text(r.output)`:                                                                      "other ",
		`const r = await tools.exec_command([{}]); text(r.output)`:                                                                   "other ",
		`if (x) { const r = await tools.exec_command({cmd:"cat a.go"}); text(r.output) }`:                                            "other ",
		"const patch = " + patch + ";\ntext(await tools.apply_patch(patch));\n":                                                      "edit a.go",
		"const p = " + patch + "; const r = await tools.apply_patch(p); text(r);":                                                    "edit a.go",
		"text(await tools.apply_patch(" + patch + "));":                                                                              "edit a.go",
		"const p = `*** Begin Patch\n*** Add File: b.go\n`; text(await tools.apply_patch(p))":                                        "edit b.go",
		"const p = `*** Add File: ${x}\n`; text(await tools.apply_patch(p))":                                                         "other ",
		"const p = " + patch + "; text(await tools.apply_patch(q))":                                                                  "other ",
		"const p = " + patch + "; const r = await tools.apply_patch(p); text(q)":                                                     "other ",
		"const p = " + patch + "; text(await tools.apply_patch(p)); rm()":                                                            "other ",
		`const p = "*** Add File: a` + "\n" + `"; text(await tools.apply_patch(p))`:                                                  "other ",
		`const p = "\x41"; text(await tools.apply_patch(p))`:                                                                         "other ",
		"text(await tools.apply_patch(p))":                                                                                           "other ",
		"text(ALL_TOOLS)":                                                                                                            "other ",
	} {
		f := factsOf("exec", program)
		if got := f.Role.String() + " " + f.Path + does(f.Shell); got != want {
			t.Errorf("%s\nis %q, not %q", program, got, want)
		}
	}
}
