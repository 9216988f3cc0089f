package usage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// samplings are usage objects of responses that took several samplings, or may have.
var samplings = map[string]struct {
	usage string
	want  pipeline.Response
}{
	"one": {
		`{"input_tokens":12,"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"cache_read_input_tokens":4000,"output_tokens":50,
		  "server_tool_use":{"web_search_requests":0},"iterations":[{"type":"message","input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"output_tokens":50}]}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 12, Read: 4000, Write5m: 100, Write1h: 200, Output: 50}},
	},
	"a search": {
		`{"input_tokens":30,"cache_creation_input_tokens":900,"cache_read_input_tokens":8300,"output_tokens":90,"server_tool_use":{"web_search_requests":1},"iterations":[
		  {"type":"message","input_tokens":10,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":300},"output_tokens":50},
		  {"type":"message","input_tokens":20,"cache_creation_input_tokens":600,"cache_read_input_tokens":4300,"cache_creation":{"ephemeral_5m_input_tokens":600,"ephemeral_1h_input_tokens":0},"output_tokens":40}]}`,
		pipeline.Response{Usage: &pipeline.Usage{
			Input: 10, Read: 4000, Write1h: 300, Output: 50,
			Bill: &pipeline.Usage{Input: 30, Read: 8300, Write5m: 600, Write1h: 300, Output: 90},
		}},
	},
	"a compaction": {
		`{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 23000, Output: 1000, Bill: &pipeline.Usage{Input: 203000, Output: 4500}}},
	},
	"a compaction alone": {
		`{"input_tokens":0,"output_tokens":0,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500}]}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 180000, Output: 3500}, Unclear: true},
	},
	"another model": {
		`{"input_tokens":7,"output_tokens":2,"iterations":[{"type":"message","input_tokens":3,"output_tokens":1},{"type":"advisor_message","model":"another","input_tokens":800,"output_tokens":90},{"type":"message","input_tokens":4,"output_tokens":1}]}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 3, Output: 1, Bill: &pipeline.Usage{Input: 7, Output: 2}}},
	},
	"a total that does not fit": {
		`{"input_tokens":9,"output_tokens":2,"iterations":[{"type":"message","input_tokens":2147483647,"output_tokens":1},{"type":"message","input_tokens":2147483647,"output_tokens":1}]}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: maxTokens, Output: 1, Bill: &pipeline.Usage{Input: maxTokens, Output: 2}}},
	},
	"no list": {
		`{"input_tokens":9,"output_tokens":2,"server_tool_use":{"web_search_requests":0,"code_execution_requests":2}}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 9, Output: 2}, Unclear: true},
	},
	"an empty list": {
		`{"input_tokens":9,"output_tokens":2,"iterations":[],"server_tool_use":null}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 9, Output: 2}},
	},
	"a list of another shape": {
		`{"input_tokens":9,"output_tokens":2,"iterations":[{"type":"message","input_tokens":9,"output_tokens":2},{"tokens":7}]}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 9, Output: 2}, Unclear: true},
	},
	"a list of zeros": {
		`{"input_tokens":9,"output_tokens":2,"iterations":[{"type":"message","input_tokens":0,"output_tokens":0}]}`,
		pipeline.Response{Usage: &pipeline.Usage{Input: 9, Output: 2}, Unclear: true},
	},
}

// The prompt is that of the first sampling, and the bill that of all, in a message and in the last word of a stream, whose first
// word is of one sampling.
func TestSamplings(t *testing.T) {
	for name, c := range samplings {
		usage := strings.ReplaceAll(c.usage, "\n", "")
		for contentType, body := range map[string]string{
			text: `{"usage":` + usage + `}`,
			sse: `data: {"type":"message_start","message":{"usage":{"output_tokens":1}}}` + "\n\n" +
				`data: {"type":"message_delta","usage":` + usage + "}\n\n",
		} {
			if d := cmp.Diff(c.want, read(t, contentType, "", strings.NewReader(body))); d != "" {
				t.Errorf("%s, %s: %s", name, contentType, d)
			}
		}
	}
}

// A stream whose last word on the prompt is another than its first is unclear, unless it lists its samplings.
func TestPromptThatMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1000)
		was := [3]int{n.Draw(t, "input"), n.Draw(t, "read"), n.Draw(t, "write")}
		is := was
		moved := rapid.IntRange(0, 200).Draw(t, "moved")
		is[rapid.IntRange(0, 2).Draw(t, "which")] += moved
		wire := func(p [3]int, more string) string {
			return fmt.Sprintf(`{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":1%s}`, p[0], p[1], p[2], more)
		}
		prompt := was[0] + was[1] + was[2]
		for list, want := range map[string]bool{"": prompt > 0 && moved*20 > prompt, `,"iterations":[` + wire(was, `,"type":"message"`) + `]`: false} {
			got := read(silent{}, sse, "", strings.NewReader(`data: {"type":"message_start","message":{"usage":`+wire(was, "")+"}}\n\n"+
				`data: {"type":"message_delta","usage":`+wire(is, list)+"}\n\n"))
			if prompt > 0 && (got.Usage == nil || got.Unclear != want) {
				t.Fatalf("from %v to %v with %q: %+v", was, is, list, got)
			}
			if list != "" && prompt > 0 && (got.Usage.Prompt() != prompt || got.Usage.Bill != nil) {
				t.Fatalf("from %v to %v with a list: %+v", was, is, got.Usage)
			}
		}
	})
}
