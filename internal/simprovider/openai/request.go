package openai

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// api is one of the provider's interfaces.
type api string

// The interfaces.
const (
	chat      api = "chat"
	responses api = "responses"
	compact   api = "compact" // a conversation is made shorter
)

// list is the member that holds the conversation.
func (a api) list() string {
	if a == chat {
		return "messages"
	}
	return "input"
}

// endpoint returns the interface that a path belongs to, and the deployment that an Azure path names.
func endpoint(path string) (which api, deployment string, ok bool) {
	path = strings.TrimSuffix(path, "/")
	if rest, azure := strings.CutPrefix(path, "/openai"); azure {
		path = rest
		if rest, named := strings.CutPrefix(path, "/deployments/"); named {
			deployment, rest, _ = strings.Cut(rest, "/")
			path = "/" + rest
		}
	}
	switch strings.TrimPrefix(path, "/v1") {
	case "/chat/completions":
		return chat, deployment, true
	case "/responses":
		return responses, deployment, true
	case "/responses/compact":
		return compact, deployment, true
	}
	return "", "", false
}

// request is a body of the right shape.
type request struct {
	api      api
	path     string
	account  string // the API key
	model    string
	facts    model
	stream   bool
	tally    bool // a stream of Chat ends with the usage
	key      string
	memory   bool // prompt_cache_retention is in_memory, asked for or by default
	explicit bool // no implicit breakpoint
	prewarm  bool // only the cache is written
	store    bool
	sealed   bool // encrypted reasoning is part of the answer
	settings []byte

	tools        []*block
	instructions *block
	items        []*item
	fresh        int // of items, the first that the body holds
	conversation *conversation
}

// shape checks the shape of a body.
func (s *Sim) shape(which api, deployment string, b *body, h http.Header) (*request, *Error) {
	r := &request{api: which, account: apiKey(h)}
	for _, read := range []func(*body) *Error{
		func(b *body) *Error { return r.readModel(b, deployment) },
		r.readFlags,
		r.readCaching,
		func(b *body) *Error { return r.readHead(b, s.parser) },
		func(b *body) *Error { return s.readItems(r, b) },
	} {
		if f := read(b); f != nil {
			return nil, f
		}
	}
	r.readSettings(b)
	return r, nil
}

func (r *request) readModel(b *body, deployment string) *Error {
	r.model = deployment
	if n := b.values["model"]; n != nil && !n.Is("null") {
		if n.Kind != 's' {
			return badType("model", aString, n).at("")
		}
		if _, known := lookup(n.Text); known || deployment == "" {
			r.model = n.Text
		}
	}
	if r.model == "" {
		if r.api == chat {
			return refuse("", "", "you must provide a model parameter")
		}
		return missing("model").at("")
	}
	facts, known := lookup(r.model)
	r.facts = facts
	switch {
	case !known && deployment != "":
		f := refuse("", "DeploymentNotFound", "The API deployment for this resource does not exist. If you created the deployment "+
			"within the last 5 minutes, please wait a moment and try again.")
		f.Status, f.Type = http.StatusNotFound, ""
		return f
	case !known && r.api == chat:
		f := refuse("", "model_not_found", "The model `%s` does not exist or you do not have access to it.", r.model)
		f.Status = http.StatusNotFound
		return f
	case !known:
		return refuse("model", "model_not_found", "The requested model '%s' does not exist.", r.model)
	case facts.noChat && r.api == chat:
		f := refuse("model", "", "This model is only supported in v1/responses and not in v1/chat/completions.")
		f.Status = http.StatusNotFound
		return f
	}
	return nil
}

// flagged reads a member that is true or false.
func flagged(b *body, name string, otherwise bool) (bool, *Error) {
	n := b.values[name]
	switch {
	case n == nil, n.Is("null"):
		return otherwise, nil
	case n.Is("true"), n.Is("false"):
		return n.Is("true"), nil
	}
	return false, badType(name, "a boolean", n).at("")
}

func (r *request) readFlags(b *body) (f *Error) {
	if r.stream, f = flagged(b, "stream", false); f != nil {
		return f
	}
	if r.store, f = flagged(b, "store", r.api == responses); f != nil {
		return f
	}
	r.store = r.store && r.api == responses
	if n := b.values["stream_options"]; n != nil && n.Kind == '{' {
		if !r.stream {
			return refuse("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
		}
		r.tally = n.Get("include_usage").Is("true")
	}
	if n := b.values["include"]; n != nil && n.Kind == '[' {
		r.sealed = slices.ContainsFunc(n.Kids, func(n *simkit.Node) bool { return n.Text == "reasoning.encrypted_content" })
	}
	return nil
}

// readCaching reads what the request asks of the prompt cache.
func (r *request) readCaching(b *body) *Error {
	if n := b.values["prompt_cache_key"]; n != nil && !n.Is("null") {
		if n.Kind != 's' {
			return badType("prompt_cache_key", aString, n).at("")
		}
		r.key = n.Text
	}
	retention, options := b.values["prompt_cache_retention"], b.values["prompt_cache_options"]
	if retention.Is("null") {
		retention = nil
	}
	if options.Is("null") {
		options = nil
	}
	if f := r.readRetention(retention); f != nil || options == nil {
		return f
	}
	return r.readOptions(options, retention != nil)
}

func (r *request) readRetention(n *simkit.Node) *Error {
	const name, day, memory = "prompt_cache_retention", "24h", "in_memory"
	r.memory = !r.facts.extended
	if n == nil {
		return nil
	}
	if n.Kind != 's' {
		return badType(name, aString, n).at("")
	}
	if n.Text != day && n.Text != memory {
		return badValue(name, n.Text, memory, day).at("")
	}
	takes := map[string]bool{day: r.facts.extended, memory: r.facts.brief}
	if !r.facts.points && !takes[n.Text] {
		other := map[string]string{day: memory, memory: day}[n.Text]
		return refuse(name, "unsupported_value", "Unsupported value: '%s' does not support '%s' with this model. Supported values are: '%s'.",
			name, n.Text, other)
	}
	r.memory = n.Text == memory
	return nil
}

func (r *request) readOptions(n *simkit.Node, retention bool) *Error {
	const name = "prompt_cache_options"
	switch {
	case !r.facts.points:
		return unsupported(name).at("")
	case n.Kind != '{':
		return badType(name, anObject, n).at("")
	}
	for i, member := range n.Names {
		path, value := name+"."+member, n.Kids[i]
		switch {
		case value.Is("null"):
		case member == "mode" && value.Text != "implicit" && value.Text != "explicit":
			return badValue(path, value.Text, "implicit", "explicit").at("")
		case member == "mode":
			r.explicit = value.Text == "explicit"
		case member == "ttl" && value.Text != "30m":
			return badValue(path, value.Text, "30m").at("")
		case member == "ttl" && retention:
			return refuse(path, "", "The parameters 'prompt_cache_options.ttl' and 'prompt_cache_retention' cannot be used together.")
		case member == "prewarm":
			r.prewarm = value.Is("true")
		case member == "ttl", member == "comparison_response_id":
		default:
			return unknown(path).at("")
		}
	}
	return nil
}

// readHead reads what stands before the conversation.
func (r *request) readHead(b *body, p *parser) *Error {
	if b.tools != nil {
		if b.tools.flaw != nil {
			return b.tools.flaw.at("")
		}
		r.tools = b.tools.blocks
	}
	n := b.values["instructions"]
	if n == nil || n.Is("null") || r.api == chat {
		return nil
	}
	if n.Kind != 's' {
		return badType("instructions", aString, n).at("")
	}
	if n.Text != "" {
		r.instructions = p.newBlock(n, []byte("instructions"), true)
	}
	return nil
}

// readSettings collects what a cached prefix depends on besides its values.
func (r *request) readSettings(b *body) {
	for _, name := range []string{"reasoning", "reasoning_effort", "text", "response_format", "verbosity", "service_tier"} {
		n := b.values[name]
		if n == nil || n.Is("null") {
			continue
		}
		if name == "reasoning" { // how it is shown does not change the prompt
			n = n.Without("summary", "generate_summary")
		}
		r.settings = n.Encode(simkit.AppendText(r.settings, name), true)
	}
}

func apiKey(h http.Header) string {
	if key := h.Get("Api-Key"); key != "" {
		return key
	}
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}
