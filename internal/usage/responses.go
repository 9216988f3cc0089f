package usage

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// responses is the account of OpenAI's Responses API. A response in which tools of the provider's ran has the sum over all of its
// samplings as its usage.
type responses struct{ tally }

func (r *responses) document(v gjson.Result) { r.ended(v) }

// responseEvents are the events that say something of usage: those that end a response, and those that tell what is in it.
var responseEvents = [...][]byte{
	[]byte(`"response.created"`), []byte(`"response.output_item.done"`),
	[]byte(`"response.completed"`), []byte(`"response.incomplete"`), []byte(`"response.failed"`),
}

func (r *responses) event(_ string, data []byte) {
	for _, kind := range responseEvents {
		if bytes.Contains(data, kind) && json.Valid(data) {
			r.known(gjson.ParseBytes(data))
			return
		}
	}
}

// known takes an event that may be one of those.
func (r *responses) known(v gjson.Result) {
	switch v.Get("type").Str {
	case "response.created":
		r.names(v.Get("response.id"), v.Get("response.model"))
	case "response.output_item.done":
		r.item(v.Get("item"))
	case "response.completed", "response.incomplete", "response.failed":
		r.ended(v.Get("response"))
	}
}

// ended takes a response that is over. One that runs in the background has no usage yet.
func (r *responses) ended(v gjson.Result) {
	r.names(v.Get("id"), v.Get("model"))
	v.Get("output").ForEach(func(_, item gjson.Result) bool {
		r.item(item)
		return true
	})
	u := v.Get("usage")
	var f figures
	var prompt count
	if prompt.take(u.Get("input_tokens")); !prompt.said {
		return
	}
	f.read.take(u.Get("input_tokens_details.cached_tokens"))
	f.creation.take(u.Get("input_tokens_details.cache_write_tokens"))
	f.rest(prompt)
	f.output.take(u.Get("output_tokens"))
	r.figures, r.final = f, true
}

// clientCalls are the calls that the client answers in its next request. Others the provider runs itself, and goes on sampling.
var clientCalls = map[string]bool{
	"function_call": true, "custom_tool_call": true, "local_shell_call": true, "shell_call": true, "apply_patch_call": true,
	"computer_call": true, "tool_search_call": true,
}

// item takes an item of the output. One that is a call of the provider's own or a result was followed by another sampling, and
// one that is a compaction took one.
func (r *responses) item(v gjson.Result) {
	kind := v.Get("type").Str
	r.tools = r.tools || kind == "compaction" || strings.HasSuffix(kind, "_output") ||
		strings.HasSuffix(kind, "_call") && !clientCalls[kind]
}
