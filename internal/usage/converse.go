package usage

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// converse is the account of Bedrock's Converse and ConverseStream. A response names neither itself nor its model.
type converse struct {
	tally
	model string // that was asked
}

func (c *converse) document(v gjson.Result) {
	v.Get("output.message.content").ForEach(func(_, block gjson.Result) bool {
		c.block(block)
		return true
	})
	c.usage(v.Get("usage"))
}

// event takes an event of ConverseStream, of which metadata is the last.
func (c *converse) event(kind string, data []byte) {
	if kind != "contentBlockStart" && kind != "metadata" || !json.Valid(data) {
		return
	}
	v := gjson.ParseBytes(data)
	if kind == "contentBlockStart" {
		c.block(v.Get("start"))
	} else if c.usage(v.Get("usage")); c.ambiguous() {
		c.restart()
	}
}

// block takes a content block. Bedrock runs system tools itself.
func (c *converse) block(v gjson.Result) {
	c.tools = c.tools || v.Get("toolUse.type").Str == "server_tool_use"
}

// usage takes a TokenUsage of the Bedrock Runtime API. inputTokens counts neither what was read from the cache nor what was
// written to it; cacheDetails splits the writes by lifetime.
func (c *converse) usage(u gjson.Result) {
	var f figures
	f.input.take(u.Get("inputTokens"))
	f.read.take(u.Get("cacheReadInputTokens"))
	f.creation.take(u.Get("cacheWriteInputTokens"))
	u.Get("cacheDetails").ForEach(func(_, d gjson.Result) bool {
		switch d.Get("ttl").Str {
		case "5m":
			f.write5m.take(d.Get("inputTokens"))
		case "1h":
			f.write1h.take(d.Get("inputTokens"))
		}
		return true
	})
	f.output.take(u.Get("outputTokens"))
	c.figures, c.final = f, true
}

// ambiguous reports whether a stream's inputTokens may be the whole prompt: those of OpenAI's models have been seen to count what
// was read and written once more, against the documentation and against Converse.
func (c *converse) ambiguous() bool {
	short, long := c.writes()
	cached := int64(c.read.n) + int64(short) + int64(long)
	return strings.Contains(c.model, "openai.") && cached > 0 && int64(c.input.n) >= cached
}
