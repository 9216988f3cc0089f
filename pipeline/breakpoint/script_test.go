package breakpoint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/internal/vectors"
	"github.com/tidemark-dev/tidemark/pipeline/breakpoint"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// words are the blocks of a script: the members of each, without a marker.
var words = map[string]string{
	"tool":     `"name":"Read","input_schema":{}`,
	"text":     `"type":"text","text":"t"`,
	"empty":    `"type":"text","text":""`,
	"think":    `"type":"thinking","thinking":"t","signature":"s"`,
	"redacted": `"type":"redacted_thinking","data":"d"`,
	"call":     `"type":"tool_use","id":"c","name":"Read","input":{}`,
	"result":   `"type":"tool_result","tool_use_id":"c","content":"x"`,
	"nested":   `"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]`,
	"twice": `"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}},` +
		`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]`,
	"nested1h": `"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]`,
	// A marker inside the block is written after the block's own, but the provider reads it first.
	"turned": `"cache_control":{"type":"ephemeral"},"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}]`,
	"image":  `"type":"image","source":{"type":"url","url":"u"}`,
	"null":   `"type":"text","text":"t","cache_control":null`,
	"bare":   ` `,
	"bill":   `"type":"text","text":"x-anthropic-billing-header: cc_version=2"`,
	"later":  `"name":"Read","defer_loading":true`,
	"search": `"type":"search_result","source":"u"`,
}

var suffixes = map[string]string{
	"": "", "*": `"cache_control":{"type":"ephemeral"}`, "*1h": `"cache_control":{"type":"ephemeral","ttl":"1h"}`,
	"*24h": `"cache_control":{"type":"ephemeral","ttl":"24h"}`, "*null": `"cache_control":null`,
}

// write makes the body that a script describes: parts are divided by semicolons, each begins with tools, system, top or the
// role of a message and lists its blocks; note is a message whose role is system. A * puts a marker on a block, *1h one of an
// hour; "text×3" stands for three blocks, "string" alone for content that is a string.
func write(t *testing.T, script string) []byte {
	t.Helper()
	areas := map[string]string{}
	var messages []string
	for part := range strings.SplitSeq(script, ";") {
		name, rest, ok := strings.Cut(strings.TrimSpace(part), ":")
		blocks := strings.Fields(rest)
		role := name
		if name == "note" {
			role = "system"
		}
		switch {
		case !ok:
			t.Fatalf("part %q of a script", part)
		case name == "top":
			areas[name] = suffixes[blocks[0]]
		case (name == "tools" || name == "system") && blocks[0] == "string":
			areas[name] = `"s"`
		case name == "tools" || name == "system":
			areas[name] = list(t, blocks)
		case len(blocks) == 1 && blocks[0] == "string":
			messages = append(messages, `{"role":"`+role+`","content":"s"}`)
		default:
			messages = append(messages, `{"role":"`+role+`","content":`+list(t, blocks)+`}`)
		}
	}
	body := `{"model":"claude-sonnet-4-6","max_tokens":9`
	for _, area := range []string{"tools", "system"} {
		if areas[area] != "" {
			body += `,"` + area + `":` + areas[area]
		}
	}
	if areas["top"] != "" {
		body += "," + areas["top"]
	}
	return []byte(body + `,"messages":[` + strings.Join(messages, ",") + `]}`)
}

func list(t *testing.T, blocks []string) string {
	t.Helper()
	var out []string
	for _, b := range blocks {
		word, times, _ := strings.Cut(b, "×")
		word, star, marked := strings.Cut(word, "*")
		members, known := words[word]
		suffix, lawful := suffixes["*"+star]
		n := 1
		if times != "" {
			if _, err := fmt.Sscan(times, &n); err != nil {
				t.Fatal(err)
			}
		}
		if !known || marked && !lawful {
			t.Fatalf("word %q of a script", b)
		}
		if marked {
			members += "," + suffix
		}
		for range n {
			out = append(out, "{"+members+"}")
		}
	}
	return "[" + strings.Join(out, ",") + "]"
}

func parse(t *testing.T, body []byte) *transcript.Index {
	t.Helper()
	ix, err := transcript.Parse(body, transcript.Anthropic)
	if err != nil {
		t.Fatalf("%v in %.2000s", err, body)
	}
	t.Cleanup(ix.Release)
	return ix
}

// seq is the sequence number of the block at a path such as messages.2.content.0 or system.1, -1 for no path.
func seq(t *testing.T, ix *transcript.Index, path string) int32 {
	t.Helper()
	if path == "" {
		return -1
	}
	var at vectors.Position
	if _, err := fmt.Sscanf(path, "messages.%d.content.%d", &at.Message, &at.Block); err == nil {
		return ix.SeqOf(ix.Messages[at.Message].First + int32(at.Block))
	}
	var n, tools int32
	if _, err := fmt.Sscanf(path, "system.%d", &n); err != nil {
		t.Fatalf("path %q", path)
	}
	for tools < int32(len(ix.Head)) && ix.Head[tools].Kind == transcript.Tool {
		tools++
	}
	return tools + n
}

// apply makes the edits one by one from the last to the first, so that no position moves.
func apply(body []byte, edits []breakpoint.Edit) []byte {
	text := string(body)
	for _, e := range slices.Backward(edits) {
		text = text[:e.Span.Lo] + e.Text + text[e.Span.Hi:]
	}
	return []byte(text)
}
