package replay

import (
	"crypto/sha256"

	"github.com/tidwall/gjson"
	"github.com/tiktoken-go/tokenizer"
)

// counter counts o200k tokens. A message that was counted before is not counted again: a transcript is sent many times.
type counter struct {
	enc  tokenizer.Codec
	seen map[[32]byte]int
}

func newCounter() *counter {
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		enc = nil // the vocabulary is embedded: this cannot happen, and then nothing is counted
	}
	return &counter{enc: enc, seen: map[[32]byte]int{}}
}

// body is the number of tokens of a body's JSON, counted member by member and message by message.
func (c *counter) body(body []byte) (n int) {
	gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
		if (key.Str == "messages" || key.Str == "input") && value.IsArray() {
			value.ForEach(func(_, m gjson.Result) bool { n += c.text(m.Raw); return true })
			return true
		}
		n += c.text(value.Raw)
		return true
	})
	return n
}

func (c *counter) text(s string) int {
	key := sha256.Sum256([]byte(s))
	if n, ok := c.seen[key]; ok {
		return n
	}
	n := 0
	if c.enc != nil {
		if k, err := c.enc.Count(s); err == nil {
			n = k
		}
	}
	c.seen[key] = n
	return n
}
