package usage

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// gemini is the account of generateContent and streamGenerateContent, of the Gemini API and of Vertex AI.
type gemini struct {
	tally
	toolPrompt count // prompts that tools of the provider's made: billed as input, and no part of the prompt
	finished   bool  // a candidate has a reason to finish, or the prompt one to be blocked
}

func (g *gemini) document(v gjson.Result) {
	g.chunk(v)
	g.final = true
}

// event takes a chunk. Each may have usage, of which only the last is whole: it comes with the reason to finish, or after it.
func (g *gemini) event(_ string, data []byte) {
	if json.Valid(data) && g.chunk(gjson.ParseBytes(data)) && g.finished {
		g.final = true
	}
}

// chunk takes a GenerateContentResponse, and reports whether it has usage.
func (g *gemini) chunk(v gjson.Result) bool {
	if failed(v) {
		g.restart()
	}
	g.names(v.Get("responseId"), v.Get("modelVersion"))
	v.Get("candidates").ForEach(func(_, candidate gjson.Result) bool {
		g.finished = g.finished || candidate.Get("finishReason").Type == gjson.String
		return true
	})
	g.finished = g.finished || v.Get("promptFeedback.blockReason").Type == gjson.String
	return g.usage(v.Get("usageMetadata"))
}

// usage takes a UsageMetadata, as a whole, and reports whether it is one: Vertex AI has such objects without a prompt in chunks
// that are not the last. The prompt includes what was read from the cache, and nothing is written at a price. Numbers that are
// zero are left out.
func (g *gemini) usage(u gjson.Result) bool {
	var f figures
	var prompt, candidates, thoughts, tool count
	if prompt.take(u.Get("promptTokenCount")); prompt.n == 0 {
		return false
	}
	f.read.take(u.Get("cachedContentTokenCount"))
	f.rest(prompt)
	candidates.take(u.Get("candidatesTokenCount"))
	thoughts.take(u.Get("thoughtsTokenCount"))
	f.output = both(candidates, thoughts)
	f.output.said = true
	tool.take(u.Get("toolUsePromptTokenCount"))
	g.figures, g.toolPrompt = f, tool
	return true
}

func (g *gemini) response() pipeline.Response {
	r := g.tally.response()
	if r.Usage != nil && g.toolPrompt.n > 0 {
		bill := *r.Usage
		add(&bill, &pipeline.Usage{Input: g.toolPrompt.n})
		r.Usage.Bill = &bill
	}
	return r
}
