package simprovider

import (
	"net/http"
	"slices"
	"time"
)

// Received is one request as it arrived, and what became of it.
type Received struct {
	Time   time.Time   `json:"time"`
	Path   string      `json:"path"`
	Header http.Header `json:"-"`
	Body   []byte      `json:"body,omitempty"` // raw bytes; base64 in JSON
	Status int         `json:"status"`
	Error  string      `json:"error,omitempty"` // type and message of a refusal
	ID     string      `json:"id"`              // of the answer
	Model  string      `json:"model,omitempty"`
	Usage  Usage       `json:"usage"`
	Prompt int         `json:"prompt_tokens"`
	Miss   *CacheMiss  `json:"cache_miss,omitempty"` // what the diagnosis found, if the request asked for one
	Live   []Live      `json:"live,omitempty"`       // entries of the workspace after this request, the longest first
}

// keptLive is the most entries in one line of the log.
const keptLive = 64

// record logs one request.
func (s *Sim) record(res *Result, path string, body []byte, h http.Header, at time.Time) {
	if s.opts.NoLog {
		return
	}
	live := s.space(h).list(at)
	rec := Received{
		Time: at, Path: path, Header: h.Clone(), Body: body, Status: res.Status, ID: res.ID, Model: res.Model,
		Usage: res.Usage, Prompt: res.Prompt, Miss: res.Miss, Live: slices.Clone(live[:min(len(live), keptLive)]),
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
