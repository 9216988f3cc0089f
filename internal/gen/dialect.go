package gen

import "strings"

// Dialect is what clients of one format do differently. It stays the same for the life of a conversation; the zero Dialect
// writes what most clients write. Anthropic's form knows no dialects.
type Dialect struct {
	Developer    bool // OpenAI: the system prompt is written by the developer, in Responses as items instead of instructions
	Parts        bool // Chat: system prompts and what the assistant says are lists of parts, not strings
	OldLimit     bool // Chat: max_tokens instead of max_completion_tokens
	CacheControl bool // Chat: breakpoints are cache_control on parts, tools and results, as for OpenRouter or LiteLLM
	Explicit     bool // OpenAI: breakpoints are prompt_cache_breakpoint on parts; goes before CacheControl
	Custom       bool // OpenAI: apply_patch is a custom tool, whose input is no JSON
	LocalShell   bool // Responses: calls of Bash are local_shell_call
	IDs          bool // Gemini: calls and responses have ids; Responses: items have ids and a status
	JSON         bool // Converse: some results are a json value {"output": text} instead of a text
}

// dialect draws one.
func (m *Maker) dialect() Dialect {
	d := Dialect{Developer: m.chance(2), Parts: m.chance(3), OldLimit: m.chance(3), Custom: m.chance(2), IDs: m.chance(2)}
	if !m.o.Comparable {
		d.CacheControl, d.Explicit, d.LocalShell, d.JSON = m.chance(3), m.chance(5), m.chance(4), m.chance(4)
	}
	return d
}

// patch is the name of the tool that clients of OpenAI's models offer as a custom one.
const patch = "apply_patch"

var patchTool = tool{patch, note, func(m *Maker, path string) Object {
	line := func() string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(m.text(30)) }
	text := "*** Begin Patch\n*** Update File: " + path + "\n@@\n-" + line() + "\n+" + line() + "\n*** End Patch"
	return Object{{"input", text}}
}}

// grammar and chatGrammar say what a custom tool takes.
var (
	lark        = Object{{"syntax", "lark"}, {"definition", "start: /(.|\\n)+/"}}
	grammar     = Member{"format", append(Object{{"type", "grammar"}}, lark...)}
	chatGrammar = Member{"format", Object{{"type", "grammar"}, {"grammar", lark}}}
)

// raw is the input of a custom call: of the apply_patch tool, if it has no other argument.
func (c *Conversation) raw(call *Block) (string, bool) {
	o, ok := call.Get("input").(Object)
	if !ok || !c.custom(call.str("name")) || len(o) != 1 || o[0].Key != "input" {
		return "", false
	}
	s, ok := o[0].Value.(string)
	return s, ok
}

func (c *Conversation) custom(name string) bool { return c.Dialect.Custom && name == patch }

// successes and failures are envelopes that say in every format how a command ended.
var (
	successes = []string{"Exit code: 0\n", "<returncode>0</returncode>\n", "Process exited with code 0\nOutput:\n"}
	failures  = []string{"Exit code 1\n", "<returncode>2</returncode>\n", "<tool_use_error>File has not been read yet.</tool_use_error>\n"}
)

// plainAnswer is a result whose outcome every format tells alike: by a text that its client always writes, whatever the
// error flag says.
func (m *Maker) plainAnswer(id string, s shown) Block {
	var said string
	switch s {
	case file:
		said = text(code, 1+m.s.IntN(2*m.o.ResultBytes), uint64(m.s.IntN(1<<20)))
	case note:
		said = "The file has been updated."
	default:
		said = m.text(m.o.ResultBytes)
	}
	failed := m.chance(8)
	if failed {
		said = failures[m.s.IntN(len(failures))] + m.text(30)
	} else {
		said = successes[m.s.IntN(len(successes))] + said
	}
	b := Result(id, said)
	if m.chance(4) {
		b.Set("content", List{Text(said)})
	}
	if failed || m.chance(4) {
		b.Set("is_error", failed)
	}
	return b
}
