package usage

import (
	"regexp"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// name is what an id, a model or a reason looks like. They reach logs and state, so that nothing else is taken.
var name = regexp.MustCompile(`^[A-Za-z0-9._:/@-]{1,128}$`)

// tally is what an account of any format keeps.
type tally struct {
	id, model string
	figures
	tools bool // the provider ran tools of its own, so that the figures may be a sum over several prompts
	final bool // the usage is the provider's last word
}

func (t *tally) names(id, model gjson.Result) {
	take(&t.id, id)
	take(&t.model, model)
}

func take(s *string, v gjson.Result) {
	if v.Type == gjson.String && name.MatchString(v.Str) {
		*s = v.Str
	}
}

// serverTools takes usage.server_tool_use: how often which of the provider's tools ran.
func (t *tally) serverTools(u gjson.Result) {
	u.Get("server_tool_use").ForEach(func(_, n gjson.Result) bool {
		t.tools = t.tools || n.Num > 0
		return !t.tools
	})
}

// restart takes back what was said of usage: an error ended what it was the usage of.
func (t *tally) restart() { t.figures, t.final = figures{}, false }

// response is what was said. Usage without a prompt is none: no request has an empty one.
func (t *tally) response() pipeline.Response {
	r := pipeline.Response{Message: t.id, Model: t.model}
	if !t.final || !t.input.said || !t.output.said {
		return r
	}
	if u := t.sum(&t.figures); u.Prompt() > 0 {
		r.Usage, r.Unclear = &u, t.tools
	}
	return r
}

// failed reports whether a document or an event of a stream of OpenAI's or Google's says that an error ended the response. vLLM
// sends the error itself.
func failed(v gjson.Result) bool {
	e := v.Get("error")
	return e.IsObject() || e.Type == gjson.String && e.Str != "" || v.Get("object").Str == "error"
}
