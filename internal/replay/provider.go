package replay

import (
	"bytes"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/openai"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Provider says what the provider does where that is not certain.
type Provider struct {
	// NoLift: it does not lift entries to a longer life.
	NoLift bool
	// AutoTTL is how long it keeps what it caches by itself; the engine is told so too. 0: as documented, of which the engine
	// knows the upper bound, if there is one.
	AutoTTL time.Duration
}

// prices are what the engine knows of models.
func (p *Provider) prices() (*cache.Table, error) {
	if p.AutoTTL == 0 {
		return cache.Prices(), nil
	}
	return cache.Prices().With([]cache.Override{{Model: "*", AutoTTL: p.AutoTTL}})
}

// Paths of OpenAI's APIs. Gateways and Azure put others before them.
const (
	pathChat      = "/v1/chat/completions"
	pathResponses = "/v1/responses"
	pathCompact   = "/v1/responses/compact"
)

// provider is a simulated provider for one session under one policy.
type provider struct {
	anthropic *simprovider.Sim
	openAI    *openai.Sim
}

func newProvider(ratio float64, p Provider) *provider {
	var policy openai.Policy
	if p.AutoTTL > 0 {
		policy = openai.Policy{Memory: p.AutoTTL, Day: p.AutoTTL, Beyond: p.AutoTTL - documentedPoint}
	}
	return &provider{
		anthropic: simprovider.New(simprovider.Options{
			Policy: simprovider.Policy{NoLift: p.NoLift}, NoLog: true, CharsPerToken: ratio,
		}),
		openAI: openai.New(openai.Options{Policy: policy, Foreign: true, NoLog: true, CharsPerToken: ratio}),
	}
}

// documentedPoint is how long OpenAI keeps what it caches at breakpoints; policies of the simulator are relative to it.
const documentedPoint = 30 * time.Minute

// call sends a body and returns the response as an adapter would have read it. The usage is nil if the body was refused.
func (p *provider) call(r *Request, body []byte) *pipeline.Response {
	if openAI(r.wire.Format) {
		return p.callOpenAI(r, body)
	}
	res := p.anthropic.Call(body, r.Header, r.At)
	out := &pipeline.Response{Status: res.Status, Message: res.ID, Model: res.Model, After: res.First.Sub(r.At)}
	if res.Miss != nil {
		out.Miss = res.Miss.Reason
	}
	if res.Err == nil {
		u := res.Usage
		out.Usage = &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output}
	}
	return out
}

func (p *provider) callOpenAI(r *Request, body []byte) *pipeline.Response {
	res := p.openAI.Call(r.endpoint(), r.served(body), r.Header, r.At)
	out := &pipeline.Response{Status: res.Status, Message: res.ID, Model: r.model(body), After: res.First.Sub(r.At)}
	if res.Err == nil {
		u := res.Usage
		out.Usage = &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write, Output: u.Output}
	}
	return out
}

// cached is how many tokens of a body the provider holds then.
func (p *provider) cached(r *Request, body []byte) int {
	if openAI(r.wire.Format) {
		return p.openAI.Cached(r.endpoint(), r.served(body), r.At)
	}
	return p.anthropic.Cached(body, r.At)
}

// endpoint is the path under which the simulator has what the request asks for.
func (r *Request) endpoint() string {
	switch {
	case r.wire.Format == transcript.Chat:
		return pathChat
	case r.wire.Auxiliary:
		return pathCompact
	}
	return pathResponses
}

// model is the model that a body of OpenAI's formats asks for; where it names none, the one of the path.
func (r *Request) model(body []byte) string {
	if name := gjson.GetBytes(body, "model").Str; name != "" {
		return name
	}
	return r.wire.Model
}

// standIn is the model that is billed where the simulator does not serve the one that was asked for: it reads at a tenth, as most
// do, in steps of 128 tokens.
const standIn = "gpt-5"

// billedAs is the simulator's model for a model of OpenAI's formats.
func billedAs(model string) string {
	if openai.Units(model, openai.Usage{Input: 1}) > 0 {
		return model
	}
	return standIn
}

// served is a body that asks for a model which the simulator serves.
func (r *Request) served(body []byte) []byte {
	model := r.model(body)
	own := gjson.GetBytes(body, "model")
	name := []byte(`"` + billedAs(model) + `"`)
	switch {
	case own.Str == billedAs(model):
		return body
	case own.Exists():
		return slices.Concat(body[:own.Index], name, body[own.Index+len(own.Raw):])
	}
	return slices.Concat([]byte(`{"model":`), name, []byte(","), bytes.TrimPrefix(body, []byte("{")))
}
