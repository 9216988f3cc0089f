package gemini

import (
	"net/http"
	"time"
)

// Received is one request as it arrived, and what became of it.
type Received struct {
	Time   time.Time   `json:"time"`
	Path   string      `json:"path"` // with its query
	Header http.Header `json:"-"`
	Body   []byte      `json:"body,omitempty"` // without its content coding; base64 in JSON
	Status int         `json:"status"`
	Error  string      `json:"error,omitempty"` // status and message of a refusal
	ID     string      `json:"id"`              // of the answer
	Model  string      `json:"model,omitempty"`
	Usage  Usage       `json:"usage"`
	Prompt int         `json:"prompt_tokens"`
	Live   []Live      `json:"live,omitempty"` // beginnings of the account after this request, the longest first
}

// keptLive is the most beginnings in one record.
const keptLive = 64

// record logs one request.
func (s *Sim) record(res *Result, path string, body []byte, h http.Header, at time.Time) {
	if s.opts.NoLog {
		return
	}
	rec := Received{
		Time: at, Path: path, Header: h.Clone(), Body: body, Status: res.Status, ID: res.ID, Model: res.Model, Usage: res.Usage, Prompt: res.Prompt,
	}
	if e, ok := endpointOf(path); ok {
		live := s.account(e.account(h)).list(s.opts.Policy, at)
		rec.Live = live[:min(len(live), keptLive)]
	}
	if res.Err != nil {
		rec.Error = res.Err.Error()
	}
	s.log.Add(rec, len(body))
}

// Requests returns what arrived so far, oldest first; of very many only the newest.
func (s *Sim) Requests() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.List()
}
