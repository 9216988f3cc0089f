package replay

import (
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// provider is a simulated provider for one session under one policy.
type provider struct{ *simprovider.Sim }

func newProvider(ratio float64, noLift bool) *provider {
	return &provider{simprovider.New(simprovider.Options{
		Policy: simprovider.Policy{NoLift: noLift}, NoLog: true, CharsPerToken: ratio,
	})}
}

// call sends a body and returns the response as an adapter would have read it. The usage is nil if the body was refused.
func (p *provider) call(body []byte, h http.Header, at time.Time) *pipeline.Response {
	res := p.Call(body, h, at)
	out := &pipeline.Response{Status: res.Status, Message: res.ID, Model: res.Model, After: res.First.Sub(at)}
	if res.Miss != nil {
		out.Miss = res.Miss.Reason
	}
	if res.Err == nil {
		u := res.Usage
		out.Usage = &pipeline.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h, Output: u.Output}
	}
	return out
}
