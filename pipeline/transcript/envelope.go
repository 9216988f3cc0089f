package transcript

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What clients write around and in the place of a tool's result, each from the client's own source (see the table of tools) or from
// its requests, of 2026-11. A result is looked at from its ends only: what a file or a program holds in its middle says nothing.

// refusals begin the results of calls that their client refused or could not run, whatever the error flag says.
var refusals = []string{
	// Claude Code
	"<tool_use_error>", "Error: No such tool available", "The user doesn't want to proceed with this tool use",
	// Codex
	"unsupported call: ", "apply_patch verification failed: ", "exec_command failed for ", "write_stdin failed: ", "failed to parse function arguments",
	"aborted by user after ", "aborted by user", "Script failed\n",
	// opencode.
	"The arguments provided to the tool are invalid: ",
	// Cline; Roo, Kilo and Zoo
	"The user denied this operation", "Unable to apply diff to file: ", "<error_details>", "File does not exist at path: ",
	"[write_to_file for '", "CRITICAL: [write_to_file for '", "The tool execution failed with the following error:", "Missing value for required parameter '",
	"This tool cannot be used in PLAN MODE.", `{"status":"error"`, `{"status":"denied"`, "<files><error>", "<error>",
	// Gemini CLI, Qwen Code.
	"Error executing tool ", "Error preparing edit: ", "Error executing edit: ", "Failed to edit, ", "Command was cancelled by user",
	"Command was automatically cancelled", "[Operation Cancelled]", "Tool execution denied by policy",
	// goose.
	"No match found for the specified text.",
	// the text editor of Anthropic, SWE-agent and OpenHands
	"No replacement was performed", "Invalid `path` parameter", "Invalid `view_range` parameter", "Invalid `insert_line` parameter",
	// Pi
	"Could not find the exact text in ",
}

// errorTexts begin results that are error messages; of programs they say nothing, and of reads only where there is no flag.
var errorTexts = []string{
	"Error: ", "ERROR: ", "ERROR:\n", "error: ", "Error reading file", "File not found: ", "Failed to read ", "Failed to write ", "File does not exist",
	"ENOENT: ", "EACCES: ", "EISDIR: ", "Cannot read binary file: ", "No changes made to ", "Path does not exist: ",
}

// refused is the text by which a result says that its client refused the call or could not run it, empty without one.
func (a *answer) refused() string {
	if p := begins(refusals, a.head); p != "" {
		return p
	}
	if name, rest, ok := strings.Cut(a.head, "\n"); ok && strings.HasPrefix(name, "File: ") && strings.HasPrefix(rest, "Error: ") {
		return "File: …Error: " // Roo
	}
	return ""
}

// stubs begin the results by which a client says that it sent the content before, or that it has taken it away.
var stubs = []string{
	"File unchanged since last read", "[file unchanged since last read", "Wasted call — file unchanged since your last Read", // Claude Code
	"[Old tool result content cleared]",                                            // Claude Code, opencode
	"[[NOTE] This file read has been removed to save space in the context window.", // Cline
	"[File previously read: ", `{"status":"unchanged"`, `{"status": "unchanged"`,
}

// begins is the one of the texts with which s begins, empty without one.
func begins(texts []string, s string) string {
	for _, t := range texts {
		if strings.HasPrefix(s, t) {
			return t
		}
	}
	return ""
}

// form is a text that begins with one thing and soon goes on to another.
type form struct{ begin, then string }

type forms []form

func (list forms) find(s string) string {
	for _, f := range list {
		if strings.HasPrefix(s, f.begin) && strings.Contains(s[len(f.begin):], f.then) {
			return strings.TrimRight(f.begin+"…"+f.then, "…")
		}
	}
	return ""
}

// done is what edits answer that were made.
var done = forms{
	// Codex; its code mode, where a patch that fails ends the script.
	{"Success. Updated the following files:", ""},
	{"Script completed\n", ""},
	// opencode.
	{"Edit applied successfully.", ""},
	{"Wrote file successfully.", ""},
	// Claude Code, the text editors, Cline.
	{"The file ", " has been updated"},
	{"The file ", " has been edited"},
	{"File created successfully at: ", ""},
	// Text editors, SWE-agent.
	{"Last edit to ", " undone successfully"},
	{"Text replaced. Please review the changes", ""},
	// Cline.
	{"Edited ", "\n```diff"},
	{"Inserted content at line ", " in "},
	// Cline, Roo.
	{"The content was successfully saved to ", ""},
	{"The user made the following updates to your content:", ""},
	// Roo.
	{"<file_write_result>", ""},
	{`{"path":`, `"operation":`},
	{"Changes successfully applied to ", ""},
	// Gemini CLI, Qwen Code.
	{"Successfully modified file: ", ""},
	{"Successfully created and wrote to new file: ", ""},
	{"Successfully overwrote file: ", ""},
	{"Created new file: ", ""},
	{"The file: ", " has been updated."},
	// Pi; older goose.
	{"Successfully replaced ", ""},
	{"Successfully wrote ", ""},
	// goose.
	{"Edited ", " lines)"},
	{"Created ", " lines)"},
	{"Wrote ", " lines)"},
	// Copilot CLI.
	{"File ", " updated with changes"},
	{"Created file ", " with "},
	// Grok CLI.
	{"Successfully inserted content at line ", ""},
	{"Successfully undid ", ""},
}

// shown is what reads answer that show a file.
var shown = forms{
	// opencode, of today and older.
	{"<path>", "</path>\n<type>file</type>\n<content>"},
	{"<file>\n", "| "},
	// Roo.
	{"<files>\n<file><path>", "<content"},
	{"File: ", "\nLines "},
	{"File: ", "\n 1 | "},
	{"File: ", "\n1 | "},
	// The text editors, SWE-agent.
	{"Here's the result of running `cat -n` on ", ""},
	{"[File: ", " lines total)]"},
	// Gemini CLI, Qwen Code.
	{"IMPORTANT: The file content has been truncated.", "Showing lines "},
	{"Showing lines ", " total lines."},
	{"--- ", " ---\n\n"},
	// Grok CLI.
	{"Contents of ", ":\n1: "},
	{"Lines ", ":\n"},
}

var lineNumber = regexp.MustCompile(`^ *(\d+)(\t|→|\. | *\| ?)`)

// numbered reports whether a text is lines that are numbered one after the other.
func numbered(head string) bool {
	first, rest, more := strings.Cut(head, "\n")
	a := lineNumber.FindStringSubmatch(first)
	if a == nil {
		return false
	}
	second, _, whole := strings.Cut(rest, "\n")
	b := lineNumber.FindStringSubmatch(second)
	if !more || b == nil {
		return !more || !whole && len(head) >= cutHead // there is no second line, or not all of it was looked at
	}
	m, errM := strconv.Atoi(a[1])
	n, errN := strconv.Atoi(b[1])
	return errM == nil && errN == nil && n == m+1
}

// cutHead is the least that a head has which was cut off: what it was cut from may be full of escapes.
const cutHead = headBytes / 3

// running stands for the exit code of a command that has none yet.
const running = -1 << 31

// exitHeads begin the envelopes in which clients report a shell command's exit code; the code follows.
var exitHeads = []string{
	"Exit code ",   // Claude Code
	"Exit code: ",  // Codex
	"<returncode>", // mini-swe-agent
	"Process exited with code ",
}

var (
	// Codex: a few lines of facts, then Output:. The first may be the command itself, of any length.
	codexExit = regexp.MustCompile(`(?:^|\n)Wall time: [\d.]+ seconds\nProcess (?:exited with code (-?\d+)|running with session ID \d+)(?:\n|$)`)
	// Roo, as in: Command executed in terminal within working directory '/w'. Exit code: 0.
	rooExit = regexp.MustCompile(`^Command (?:executed in terminal|execution was not successful)[^\n]*?(?:\n|\. )Exit code: (-?\d+)(?:\n|$)`)
	// Codex and Amp of old: {"output":"…","metadata":{"exit_code":0,"duration_seconds":0.1}}.
	jsonExit = regexp.MustCompile(`[{,] ?"exit_?[cC]ode": ?(-?\d+)[},][^"]*(?:"duration_seconds": ?[\d.e-]+)?[}\]]*$`)
	// OpenHands: lines in brackets at the end.
	handsExit = regexp.MustCompile(`\[(?:The command completed|Command finished) with exit code (-?\d+)\.?[^\n\]]*\](?:\n\[[^\n]*\])*$`)
	// Copilot CLI: <exited with exit code 0>, <shellId: 3 completed with exit code 0>.
	copilotExit = regexp.MustCompile(`<(?:exited|shellId: [^<>\n]* completed) with exit code (-?\d+)>$`)
	// Gemini CLI and Qwen Code: Output: …, then lines of facts; the exit code is told if it is not 0, by older ones always.
	geminiFacts = regexp.MustCompile(`(?:^|\n)((?:(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*(?:\n|$))+)$`)
)

// exit is the exit code that an envelope reports, and which envelope that is; without one it is empty.
func (a *answer) exit() (code int, by string) {
	for _, p := range exitHeads {
		if rest, ok := strings.CutPrefix(a.head, p); ok {
			return codeAt(rest, p)
		}
	}
	switch {
	case strings.HasPrefix(a.head, "Chunk ID: "), strings.HasPrefix(a.head, "Wall time: "):
		return coded(codexExit, a.head, "Codex")
	case strings.HasPrefix(a.head, "Command: /") && strings.Contains(a.head, "\nChunk ID: "):
		return coded(codexExit, a.head, "Codex")
	case strings.HasPrefix(a.head, "Command execut"):
		return coded(rooExit, a.head, "Roo")
	case strings.HasPrefix(a.head, "{") && strings.Contains(a.tail, `"exit`):
		return coded(jsonExit, a.tail, "JSON with exit_code")
	case strings.HasPrefix(a.head, "Output: "), strings.HasPrefix(a.head, "Command: "):
		return geminiExit(a.tail)
	}
	return a.exitBehind()
}

// exitBehind is the exit code that stands in the last line, or lines.
func (a *answer) exitBehind() (code int, by string) {
	last := a.tail[strings.LastIndexByte(a.tail, '\n')+1:]
	switch {
	case strings.HasPrefix(last, "Command timed out"): // goose, Pi
		return 1, "Command timed out"
	case strings.HasPrefix(last, tailExit):
		return codeAt(last[len(tailExit):], tailExit)
	case !strings.Contains(a.tail, " with exit code "):
	case strings.HasSuffix(last, "]"):
		if code, by = coded(handsExit, a.tail, "OpenHands"); code == -1 {
			code = running // it waits for the command
		}
		return code, by
	case strings.HasSuffix(last, ">"):
		return coded(copilotExit, last, "Copilot CLI")
	}
	return 0, ""
}

// tailExit begins the last line that goose and Pi write behind the output of a command that failed.
const tailExit = "Command exited with code "

// coded is the code that an envelope of the form holds.
func coded(re *regexp.Regexp, text, by string) (int, string) {
	m := re.FindStringSubmatch(text)
	switch {
	case m == nil:
		return 0, ""
	case m[1] == "":
		return running, by + ": still running"
	}
	return codeAt(m[1], by+": ")
}

// codeAt is the number at the start of a text.
func codeAt(text, by string) (int, string) {
	text = strings.TrimLeft(text, " ")
	end := strings.IndexFunc(text, func(c rune) bool { return c != '-' && (c < '0' || c > '9') })
	if end < 0 {
		end = len(text)
	}
	code, err := strconv.Atoi(text[:end])
	if err != nil {
		return 0, ""
	}
	return code, by + strconv.Itoa(code)
}

// geminiExit reads the facts behind a command's output.
func geminiExit(tail string) (code int, by string) {
	m := geminiFacts.FindStringSubmatch(tail)
	if m == nil {
		return 0, ""
	}
	complete := false
	for line := range strings.Lines(m[1]) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case key == "Exit Code" && value != "(none)":
			return codeAt(value, "Gemini CLI: Exit Code: ")
		case key == "Error" && value != "(none)", key == "Signal" && value != "(none)" && value != "0":
			return 1, "Gemini CLI: " + key
		case key == "Process Group PGID":
			complete = true
		}
	}
	if !complete {
		return 0, ""
	}
	return 0, "Gemini CLI: no exit code"
}

// rangeHeads begin results that show a part of a file, which may be the part that was asked for.
var rangeHeads = []string{
	"IMPORTANT: The file content has been truncated.", "IMPORTANT: File content truncated", "[File content truncated: ", "Showing lines ", // Gemini CLI, Roo, Qwen Code
}

// cutHeads begin results of which their client left out a part.
var cutHeads = []string{
	"Output too large (", "<persisted-output>", // Claude Code
	"Warning: truncated output ", "Total output lines: ", // Codex
}

// cutEnds are the notices behind a text of which only a part is there, by how they begin.
var cutEnds = []string{
	"(Showing lines ", "(Output capped at ", "(File has more lines.", // opencode
	"[Showing lines ", "[Showing last ", "[Output exceeded ", // Cline, Pi, goose
	"<response clipped>", "... +", "(Content truncated", "[Output truncated", "[truncated",
}

// cutBehind is the notice with which a text ends, empty without one.
func cutBehind(tail string) string {
	tail = strings.TrimSuffix(tail, "\n</content>")
	if i := strings.LastIndex(tail, "<response clipped>"); i >= 0 {
		return cutEnds[slices.Index(cutEnds, "<response clipped>")]
	}
	return begins(cutEnds, tail[strings.LastIndexByte(tail, '\n')+1:])
}

// notice is a text that stands in the place of what was left out in the middle, or at the end of a line: a word of it that is looked
// for first, as that costs next to nothing, and its form, which begins with plain text so that it is soon found or not.
type notice struct {
	hint string
	form *regexp.Regexp
}

var cutInside = []notice{
	{"truncated", regexp.MustCompile(`…\d+ (?:tokens|chars) truncated…`)}, // Codex
	{"truncated", regexp.MustCompile(`Warning: truncated output \(original token count: \d+\)`)},
	{"omitted", regexp.MustCompile(`\[\.\.\. omitted \d+ of \d+ lines \.\.\.\]`)},
	// Claude Code; Gemini CLI, with the thousands set off as the user's language has it.
	{"truncated", regexp.MustCompile(`\.\.\. \[` + count + ` (?:lines|characters|chars) truncated\] \.\.\.`)},
	{"omitted", regexp.MustCompile(`\.\.\. \[` + count + ` (?:lines|characters|chars) omitted\] \.\.\.`)},
	{"truncated", regexp.MustCompile(`\[\.\.\. Observation truncated due to length \.\.\.\]`)}, // OpenHands
	{"elided_chars", regexp.MustCompile(`<elided_chars>`)},                                     // mini-swe-agent
	// opencode, Cline, Gemini CLI, Roo
	{"truncated", regexp.MustCompile(`\.\.\. \(line truncated to \d+ chars\)(?:\n|$)`)},
	{"truncated", regexp.MustCompile(` \[line truncated\](?:\n|$)`)},
	{"truncated", regexp.MustCompile(`\[truncated\](?:\n|$)`)},
	{"Showing only", regexp.MustCompile(`<notice>Showing only \d+ of \d+ total lines`)},
}

// count is a number as people write it.
const count = `\d[\d.,’'\x{a0}\x{202f} ]*`

// cutHints are words of which every notice of cutInside holds one.
var cutHints = newHints("truncated", "omitted", "elided_chars", "Showing only")

// Bounds of what is looked at around a hint, and of the hints of one kind.
const (
	noticeBytes = 160
	maxHints    = 16
)

// noticeIn is the first notice inside a text, empty without one. Of a text that is full of hints the beginning is looked at.
func noticeIn(text string) string {
	for _, h := range cutHints.words {
		at := 0
		for range maxHints {
			i := strings.Index(text[at:], h)
			if i < 0 {
				break
			}
			lo, hi := max(0, at+i-noticeBytes), min(len(text), at+i+noticeBytes)
			for _, n := range cutInside {
				if n.hint != h {
					continue
				}
				if m := n.form.FindString(text[lo:hi]); m != "" {
					return strings.TrimSpace(m)
				}
			}
			at += i + len(h)
		}
	}
	return ""
}
