package gen

import (
	"fmt"
	"strconv"
	"strings"
)

// shown is what a tool answers.
type shown uint8

const (
	file shown = iota // the file's lines
	note              // one line
	output
)

// tool is a tool as clients of today offer it.
type tool struct {
	name  string
	shown shown
	input func(m *Maker, path string) Object
}

// path names one of the files.
func (m *Maker) path() string {
	dir := "/repo/"
	if m.chance(8) {
		dir = "./"
	}
	return dir + "file" + strconv.Itoa(m.s.IntN(m.o.Files)) + ".go"
}

var tools = []tool{
	{"Read", file, func(m *Maker, path string) Object {
		o := Object{{"file_path", path}}
		if m.chance(4) {
			o = append(o, Member{"offset", Number(strconv.Itoa(1 + m.s.IntN(3)))}, Member{"limit", Number("50")})
		}
		return o
	}},
	{"Edit", note, func(m *Maker, path string) Object {
		return Object{{"file_path", path}, {"old_string", m.text(30)}, {"new_string", m.text(30)}, {"replace_all", false}}
	}},
	{"Bash", output, func(m *Maker, path string) Object {
		command := []string{
			"go test ./...", "ls -la", "cat " + path, "sed -n '1,40p' " + path, "echo x > " + path, "head -n 5 " + path + " | wc -l",
		}
		return Object{{"command", command[m.s.IntN(len(command))]}, {"description", "Run a command"}}
	}},
	{"Write", note, func(m *Maker, path string) Object { return Object{{"file_path", path}, {"content", m.text(80)}} }},
	{"Grep", output, func(m *Maker, path string) Object {
		return Object{{"pattern", m.text(10)}, {"path", path}, {"-n", true}}
	}},
	{"str_replace_based_edit_tool", file, func(m *Maker, path string) Object {
		if m.chance(3) {
			return Object{{"command", "str_replace"}, {"path", path}, {"old_str", "a"}, {"new_str", "b"}}
		}
		return Object{{"command", "view"}, {"path", path}, {"view_range", List{Number("1"), Number("20")}}}
	}},
	{"mcp__fs__read_file", file, func(_ *Maker, path string) Object { return Object{{"path", path}} }},
	{"WebFetch", output, func(m *Maker, _ string) Object {
		return Object{{"url", "https://example.com/" + m.path()}, {"prompt", m.text(20)}}
	}},
}

// exchange makes a call and the result that answers it.
func (m *Maker) exchange() (call, answer Block) {
	t := tools[m.s.IntN(len(tools))]
	if m.chance(2) {
		t = tools[m.s.IntN(2)] // most calls read and change files
	}
	if m.o.Dialects && m.chance(6) {
		t = patchTool
	}
	if !m.strange(10) {
		m.ids++
	}
	id := fmt.Sprintf("toolu_%04d", m.ids)
	input := any(t.input(m, m.path()))
	if m.strange(12) {
		twice := Object{{"path", "a"}, {"path", "b"}, {"cache_control", Object{{"type", "ephemeral"}}}}
		input = []any{Object{}, nil, List{}, "text", twice}[m.s.IntN(5)]
	}
	return m.written(Call(id, t.name, input)), m.written(m.answer(id, t.shown))
}

func (m *Maker) answer(id string, s shown) Block {
	if m.o.Comparable {
		return m.plainAnswer(id, s)
	}
	var said string
	switch {
	case m.chance(16):
		b := Result(id, "<tool_use_error>File has not been read yet.</tool_use_error>")
		b.Set("is_error", true)
		return b
	case s == note:
		said = "The file has been updated."
	case s == file && m.chance(12):
		said = "File unchanged since last read. Refer to the earlier result."
	case s == file:
		said = text(code, 1+m.s.IntN(2*m.o.ResultBytes), uint64(m.s.IntN(1<<20)))
	default:
		said = m.text(m.o.ResultBytes)
	}
	b := Result(id, said)
	if m.strange(3) {
		b.Set("content", m.parts(said))
	} else if m.chance(4) {
		b.Set("content", List{Text(said)})
	}
	if m.chance(4) {
		b.Set("is_error", false)
	}
	if m.strange(20) {
		b.Members = b.Members[:2] // a result may have no content at all
	}
	return b
}

// parts makes result content of every form.
func (m *Maker) parts(said string) any {
	half := len(said) / 2
	for half > 0 && said[half]&0xc0 == 0x80 {
		half--
	}
	a, b := Text(said[:half]), Text(said[half:])
	switch m.s.IntN(8) {
	case 0:
		return ""
	case 1:
		return List{}
	case 2:
		return nil
	case 3:
		return List{a, b}
	case 4:
		b.Marker = m.anyMarker()
		return List{a, b}
	case 5:
		a.Marker = m.anyMarker()
		return List{a, image(), b}
	case 6:
		return List{Object{{"type", "search_result"}, {"source", "x"}, {"content", List{a}}}}
	}
	return []any{List{said}, Number("12"), Object{{"type", "text"}}, List{Object{{"type", "text"}}}}[m.s.IntN(4)]
}

func (m *Maker) anyMarker() Marker { return []Marker{NoMarker, Short, Long, Null}[m.s.IntN(4)] }

func image() Object {
	data := strings.Repeat("iVBORw0KGgo=", 4)
	return Object{{"type", "image"}, {"source", Object{{"type", "base64"}, {"media_type", "image/png"}, {"data", data}}}}
}

// unknown makes a block that nothing may be done to.
func (m *Maker) unknown() Block {
	deep := Text("inside")
	deep.Marker = m.anyMarker()
	return []Block{
		{Members: image()},
		{Members: Object{{"type", "redacted_thinking"}, {"data", "ZGF0YQ=="}}},
		{Members: Object{{"type", "document"}, {"source", Object{{"type", "content"}, {"content", List{deep}}}}, {"title", nil}}},
		{Members: Object{{"type", "search_result"}, {"source", "x"}, {"title", "t"}, {"content", List{deep}}}},
		{Members: Object{{"type", "server_tool_use"}, {"id", "srvtoolu_1"}, {"name", "web_search"}, {"input", Object{{"cache_control", "no"}}}}},
		{Members: Object{{"type", "not yet known"}, {"x", Number("1")}, {"x", Number("2")}, {"deep", List{List{Object{}}}}}},
		{Members: Object{}},
		{Members: Object{{"type", "text"}, {"text", ""}}},
		{Members: Object{{"type", "text"}, {"text", "cited"}, {"citations", List{Object{{"type", "char_location"}}}}}},
		{Members: Object{{"type", "text"}, {"text", Number("1")}}},
		{Members: Object{{"type", nil}, {"text", "no type"}}},
	}[m.s.IntN(11)]
}

// oddHead makes the head of a body strange.
func (m *Maker) oddHead(c *Conversation) {
	switch m.s.IntN(5) {
	case 0:
		c.System = nil
	case 1:
		c.System, c.Tools = []Block{}, []Block{}
	case 2:
		c.Model, c.MaxTokens = "", 0
	case 3:
		schema := Object{{"properties", Object{{"cache_control", Object{{"type", "string"}}}}}}
		c.Tools = append(c.Tools, m.written(Block{Members: Object{{"type", "web_search_20250305"}, {"name", "web_search"}}}),
			m.written(Block{Members: Object{{"name", "x"}, {"input_schema", schema}}}),
			m.written(Block{Members: Object{{"name", "later"}, {"defer_loading", m.chance(2)}}}))
	case 4:
		c.System = append(c.System, m.written(Block{Members: Object{{"type", "guardContent"}, {"x", Surrogate(0xdc00)}}}))
	}
	c.Extra = append(c.Extra, Member{"x", List{}}, Member{"x", Object{{"messages", List{}}}}, Member{"tool_choice", nil})
}

// mark puts breakpoints where few clients do, without regard to the provider's limits.
func (m *Maker) mark(c *Conversation) {
	for _, area := range [][]Block{c.System, c.Tools} {
		for i := range area {
			if m.chance(3) {
				area[i].Marker = m.anyMarker()
			}
		}
	}
	for i := range c.Messages {
		for j := range c.Messages[i].Blocks {
			if m.chance(4) {
				c.Messages[i].Blocks[j].Marker = m.anyMarker()
			}
		}
	}
	c.TopMarker = m.anyMarker()
}
