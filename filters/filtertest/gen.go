package filtertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Session is a transcript as a structure.
type Session []Turn

// Turn is one assistant turn with the answers to its calls.
type Turn struct{ Calls []Call }

// Input is the arguments of a call.
type Input map[string]any

// Call is a tool call.
type Call struct {
	ID     string
	Tool   string
	Input  Input
	Does   Deed
	Answer *Answer // nil: not answered yet
}

// Effect is what a call does to a file if it succeeds.
type Effect uint8

// Effects.
const (
	Nothing Effect = iota // nothing that its arguments prove
	Reads
	Edits
	ShellReads
	ShellEdits
	Touches // names the file, and neither reads nor edits it
)

// Deed says what a call does, apart from the tables of package transcript, so that a test can work out what must follow.
type Deed struct {
	Effect Effect
	Path   string // in clean form; empty if the arguments name none
	Also   string // a second file that it does the same to
	Place  string // the server whose files they are; empty: the client's own
	Part   string // two reads of one path show the same only if their parts are equal
}

// On reports whether the deed is done to a file; the empty path is none.
func (d Deed) On(path string) bool { return path != "" && (d.Path == path || d.Also == path) }

// Shape is the form of a result's content.
type Shape uint8

// Shapes.
const (
	String Shape = iota
	List         // a list of one text block
	Image        // a list with an image
	Nested       // a list of one text block that carries a breakpoint
	Empty        // an empty string
)

// Answer is the result of a call.
type Answer struct {
	Text   string
	Error  bool
	Failed bool // the text says that it failed, whatever the flag
	Stub   bool // the text refers to what was sent before
	Shape  Shape
}

// Done reports whether the call succeeded beyond doubt.
func (c *Call) Done() bool { return c.Answer != nil && !c.Answer.Error && !c.Answer.Failed }

// Source is a text of n lines.
func Source(n int) string { return strings.Repeat("line of source\n", n) }

type object = map[string]any

// Body is the session as an Anthropic Messages body.
func (s Session) Body() []byte {
	messages := make([]object, 0, 1+2*len(s))
	messages = append(messages, object{"role": "user", "content": "go"})
	for _, t := range s {
		said, answered := make([]object, 0, 1+len(t.Calls)), make([]object, 0, 1+len(t.Calls))
		said = append(said, object{"type": "text", "text": "so"})
		for i := range t.Calls {
			c := &t.Calls[i]
			said = append(said, object{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": c.Input})
			if c.Answer != nil {
				answered = append(answered, c.result())
			}
		}
		if len(answered) == 0 {
			answered = append(answered, object{"type": "text", "text": "go on"})
		}
		messages = append(messages, object{"role": "assistant", "content": said}, object{"role": "user", "content": answered})
	}
	body, err := json.Marshal(object{"model": "claude-opus-4-6", "max_tokens": 1024, "messages": messages})
	if err != nil {
		return nil // maps of strings and numbers always marshal
	}
	return body
}

func (c *Call) result() object {
	r := object{"type": "tool_result", "tool_use_id": c.ID}
	text := object{"type": "text", "text": c.Answer.Text}
	switch c.Answer.Shape {
	case String:
		r["content"] = c.Answer.Text
	case List:
		r["content"] = []object{text}
	case Image:
		r["content"] = []object{text, {"type": "image", "source": object{"type": "base64", "data": "AAAA"}}}
	case Nested:
		text["cache_control"] = object{"type": "ephemeral"}
		r["content"] = []object{text}
	case Empty:
		r["content"] = ""
	}
	if c.Answer.Error {
		r["is_error"] = true
	}
	return r
}

// IDs says how call ids are drawn.
type IDs bool

// Ways to draw call ids.
const (
	UniqueIDs IDs = true
	AnyIDs    IDs = false // now and then one stands twice
)

// spellings are the paths that are drawn, with their clean form.
var spellings = map[string]string{
	"/w/a.go": "/w/a.go", "/w/./a.go": "/w/a.go", "/w/x/../a.go": "/w/a.go", "a.go": "a.go", "/w/c.go": "/w/c.go", "/w/b.ipynb": "/w/b.ipynb",
}

// Sessions draws sessions of up to eight turns over a few files.
func Sessions(ids IDs) *rapid.Generator[Session] {
	return rapid.Custom(func(t *rapid.T) Session {
		s := make(Session, rapid.IntRange(1, 8).Draw(t, "turns"))
		n := 0
		for i := range s {
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				c := drawCall(t)
				if n++; ids == UniqueIDs || rapid.IntRange(0, 19).Draw(t, "repeat") > 0 {
					c.ID = fmt.Sprint("id-", n)
				} else {
					c.ID = "id-1"
				}
				s[i].Calls = append(s[i].Calls, c)
			}
		}
		return s
	})
}

func drawCall(t *rapid.T) Call {
	path := rapid.SampledFrom(slices.Sorted(maps.Keys(spellings))).Draw(t, "path")
	c := rapid.Custom(func(t *rapid.T) Call {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1, 2:
			return drawRead(t, path)
		case 3, 4:
			return drawEdit(t, path)
		case 5, 6:
			return drawShell(t, path)
		case 7:
			return Call{Tool: "Grep", Input: Input{"pattern": "x", "path": path}, Does: Deed{Effect: Touches, Path: spellings[path]}}
		case 8:
			return Call{Tool: "Read", Input: Input{}, Does: Deed{Effect: Reads}}
		}
		return Call{Tool: "Agent", Input: Input{"prompt": "look at " + path}}
	}).Draw(t, "call")
	c.Answer = drawAnswer(t)
	return c
}

func drawRead(t *rapid.T, path string) Call {
	does := Deed{Effect: Reads, Path: spellings[path]}
	switch rapid.IntRange(0, 3).Draw(t, "range") {
	case 0:
		does.Part = "10,20"
		return Call{Tool: "Read", Input: Input{"file_path": path, "offset": 10, "limit": 20}, Does: does}
	case 1:
		does.Part = "[1,40]"
		return Call{Tool: "str_replace_based_edit_tool", Input: Input{"command": "view", "path": path, "view_range": []int{1, 40}}, Does: does}
	}
	tool := rapid.SampledFrom([]string{"Read", "view", "mcp__fs__read_file"}).Draw(t, "tool")
	if strings.HasPrefix(tool, "mcp__") {
		does.Part, does.Place = "of another server", "fs" // it may not mean the same file
	}
	return Call{Tool: tool, Input: Input{"path": path}, Does: does}
}

func drawEdit(t *rapid.T, path string) Call {
	does := Deed{Effect: Edits, Path: spellings[path]}
	switch tool := rapid.SampledFrom([]string{"Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch", "mcp__fs__edit_file"}).Draw(t, "tool"); tool {
	case "mcp__fs__edit_file":
		does.Place = "fs"
		return Call{Tool: tool, Input: Input{"path": path, "edits": "x"}, Does: does}
	case "apply_patch":
		does.Also = "/w/c.go"
		patch := "*** Begin Patch\n*** Update File: " + path + "\n@@\n-a\n+b\n*** Add File: /w/c.go\n+c\n*** End Patch"
		return Call{Tool: tool, Input: Input{"input": patch}, Does: does}
	case "NotebookEdit":
		return Call{Tool: tool, Input: Input{"notebook_path": path, "new_source": "x"}, Does: does}
	default:
		return Call{Tool: tool, Input: Input{"file_path": path, "content": "x"}, Does: does}
	}
}

func drawShell(t *rapid.T, path string) Call {
	does, command := Deed{Path: spellings[path]}, "git apply fix.patch && go test ./..."
	switch rapid.IntRange(0, 4).Draw(t, "command") {
	case 0:
		does.Effect, command = ShellReads, "cat "+path
	case 1:
		does.Effect, does.Part, command = ShellReads, "sed 10,20p", "sed -n 10,20p "+path
	case 2:
		does.Effect, command = ShellEdits, "echo x > "+path
	case 3:
		does.Effect, command = ShellEdits, "sed -i s/a/b/ "+path
	default:
		does = Deed{}
	}
	return Call{Tool: "Bash", Input: Input{"command": command}, Does: does}
}

func drawAnswer(t *rapid.T) *Answer {
	switch rapid.IntRange(0, 11).Draw(t, "answer") {
	case 0:
		return nil
	case 1:
		return &Answer{Text: Source(60), Error: true}
	case 2:
		return &Answer{Text: "Exit code 2\n" + Source(60), Failed: true}
	case 3:
		return &Answer{Text: "File unchanged since last read. " + Source(60), Stub: true}
	case 4:
		return &Answer{Text: "ok"}
	case 5:
		return &Answer{Shape: Empty}
	case 6:
		return &Answer{Text: Source(60), Shape: Image}
	case 7:
		return &Answer{Text: Source(60), Shape: Nested}
	case 8:
		return &Answer{Text: Source(200), Shape: List}
	}
	return &Answer{Text: Source(rapid.IntRange(20, 200).Draw(t, "lines"))}
}

// DrawView draws a view of a body: any zones that can be, any results open, held or decided already, and each function of the
// view that may be nil so or not.
func DrawView(t *rapid.T, ix *transcript.Index) *filters.View {
	v := &filters.View{Index: ix, Turn: ix.LastTurn(), Filled: rapid.SampledFrom([]float64{0, 0.2, 0.6, 1.1}).Draw(t, "filled")}
	last := ix.LastAssistant()
	for i := range ix.Results {
		state := rapid.IntRange(0, 9).Draw(t, "state")
		if state == 0 {
			continue
		}
		c := filters.Candidate{Result: int32(i), Zone: filters.Zone(state % 2), Open: state > 2, Held: state > 7}
		if ix.Results[i].Msg > last {
			c.Zone, c.Held = filters.Fresh, false
		}
		v.Candidates = append(v.Candidates, c)
	}
	drawFunctions(t, v)
	drawCut(t, v)
	return v
}

// drawCut draws what a view says of cuts: mostly that there is none. The results of what is cut are no candidates.
func drawCut(t *rapid.T, v *filters.View) {
	ix := v.Index
	v.CutGate = rapid.SampledFrom([]filters.Gate{"", "", "", filters.CachedPrefix}).Draw(t, "cut gate")
	if rapid.Bool().Draw(t, "size") {
		v.Size = func(msg int32) int { return ix.EstMessage(msg) / 2 }
	}
	c := filters.Cut{
		Head: ix.FirstHuman(), Next: int32(rapid.IntRange(0, len(ix.Messages)-1).Draw(t, "next")), KeepHuman: rapid.Bool().Draw(t, "keep human"),
	}
	if c.Head < 0 || c.Next <= c.Head || !ix.Opens(c.Next) || rapid.IntRange(0, 2).Draw(t, "cut") > 0 {
		return
	}
	if g, ok := ix.Gap(c.Head, c.Next, c.KeepHuman); ok {
		v.Cut = &c
		v.Candidates = slices.DeleteFunc(v.Candidates, func(c filters.Candidate) bool { return g.Dropped[ix.Results[c.Result].Msg] })
	}
}

// drawFunctions draws functions that always give the same for the same arguments.
func drawFunctions(t *rapid.T, v *filters.View) {
	gates := []filters.Gate{"", "", filters.NoBreakpoint, filters.PrefixBound}
	v.HoldGate = rapid.SampledFrom(gates).Draw(t, "hold gate")
	if rapid.Bool().Draw(t, "hold at") {
		v.HoldAt = func(result int32) filters.Gate { return gates[int(result)%len(gates)] }
	}
	if rapid.Bool().Draw(t, "hold pays") {
		v.HoldPays = func(result int32, turns int) bool { return (int(result)+turns)%2 == 0 }
	}
	if rapid.Bool().Draw(t, "summary") {
		v.Summary = func(result int32, _ *filters.Summarizer, attempts int) (string, filters.Gate) {
			switch (int(result) + attempts) % 3 {
			case 0:
				return "", filters.NoSummary
			case 1:
				return "", filters.AttemptsSpent
			}
			return fmt.Sprint("what result ", result, " says"), ""
		}
	}
	if rapid.Bool().Draw(t, "memo") {
		v.Memo = func(_ string, grow func(kept filters.Memo) filters.Memo) filters.Memo { return grow(nil) }
	}
}
