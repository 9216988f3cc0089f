package usage

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// chat is the account of Chat Completions, OpenAI's own and those of the many servers that speak it.
type chat struct {
	tally
	finished bool // a choice has a reason to finish
	done     bool // the stream says that it is over
}

func (c *chat) document(v gjson.Result) {
	c.chunk(v)
	c.final = true
}

var done = []byte("[DONE]")

// event takes a chunk. Usage is the last word once the stream says that it is over, or where it stands in a chunk of its own
// after a choice has finished, as OpenAI documents it. Servers that send usage with every chunk send the sum so far.
func (c *chat) event(_ string, data []byte) {
	switch {
	case c.done:
	case bytes.Equal(bytes.TrimSpace(data), done):
		c.done, c.final = true, true
	case json.Valid(data):
		v := gjson.ParseBytes(data)
		alone := c.chunk(v) && v.Get("choices.#").Num == 0
		c.final = c.final || alone && c.finished
	}
}

// usagePlaces are where chunks and responses have their usage: where OpenAI has it, where Moonshot has it while streaming, and
// where Groq has it in streams that were not asked for any.
var usagePlaces = [...]string{"usage", "choices.0.usage", "x_groq.usage"}

// chunk takes a chunk, or a whole response, and reports whether it has usage.
func (c *chat) chunk(v gjson.Result) bool {
	if failed(v) {
		c.restart()
	}
	c.names(v.Get("id"), v.Get("model"))
	v.Get("choices").ForEach(func(_, choice gjson.Result) bool {
		c.finished = c.finished || choice.Get("finish_reason").Type == gjson.String
		return true
	})
	for _, place := range usagePlaces {
		if c.usage(v.Get(place)) {
			return true
		}
	}
	return false
}

// Where usage objects of Chat Completions say what was read from the cache and what was written to it, the last one that is not
// zero being right. All of it is part of prompt_tokens.
var (
	chatReads = [...]string{
		"cached_tokens",                       // Moonshot
		"prompt_cache_hit_tokens",             // DeepSeek, the rest being prompt_cache_miss_tokens
		"cache_read_input_tokens",             // LiteLLM, for providers that have such a number
		"prompt_tokens_details.cached_tokens", // OpenAI, OpenRouter and most others
	}
	chatWrites = [...]string{
		"cache_creation_input_tokens",                       // LiteLLM
		"prompt_tokens_details.cache_creation_input_tokens", // DashScope
		"prompt_tokens_details.cache_creation_tokens",       // LiteLLM
		"prompt_tokens_details.cache_write_tokens",          // OpenAI, from GPT-5.6 on, and OpenRouter
	}
	chatLifetimes = [...]string{
		"cache_creation",
		"prompt_tokens_details.cache_creation",
		"prompt_tokens_details.cache_creation_token_details", // LiteLLM
	}
)

// usage takes a usage object, as a whole, and reports whether it is one. It is none without a prompt: there are servers that send
// one of zeros until they know.
func (c *chat) usage(u gjson.Result) bool {
	var f figures
	var prompt count
	if prompt.take(u.Get("prompt_tokens")); prompt.n == 0 {
		return false
	}
	for _, path := range chatReads {
		f.read.correct(u.Get(path))
	}
	for _, path := range chatWrites {
		f.creation.correct(u.Get(path))
	}
	for _, path := range chatLifetimes {
		f.lifetimes(u.Get(path))
	}
	f.rest(prompt)
	f.output = completion(u, prompt)
	c.figures = f
	c.serverTools(u)
	return true
}

// completion is what was put out, reasoning included. xAI leaves reasoning out of completion_tokens, which the total tells.
func completion(u gjson.Result, prompt count) count {
	var text, reasoning, total count
	text.take(u.Get("completion_tokens"))
	reasoning.take(u.Get("completion_tokens_details.reasoning_tokens"))
	total.take(u.Get("total_tokens"))
	if text.said && int64(total.n) == int64(prompt.n)+int64(text.n)+int64(reasoning.n) {
		return both(text, reasoning)
	}
	return text
}
