package openai

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// ServeHTTP is the provider's API, and /sim/ to look at the simulator and to reset it.
func (s *Sim) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, "/openai"), "/v1")
	_, _, known := endpoint(req.URL.Path)
	switch {
	case req.Method == http.MethodPost && known:
		s.post(w, req)
	case req.Method == http.MethodPost && path == "/conversations":
		s.converse(w, req)
	case req.Method == http.MethodGet && path == "/models":
		s.models(w)
	case req.Method == http.MethodGet && path == "/sim/requests":
		s.listRequests(w, req)
	case req.Method == http.MethodPost && path == "/sim/reset":
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	default:
		f := noSuchPath(req.URL.Path)
		f.Message = fmt.Sprintf("Invalid URL (%s %s)", req.Method, req.URL.Path)
		s.refuse(w, req, f)
	}
}

func (s *Sim) post(bare http.ResponseWriter, req *http.Request) {
	w, err := simkit.NewOutlet(bare, req)
	if err != nil {
		writeError(bare, refuse("", "", "%v", err), "")
		return
	}
	defer func() { _ = w.Close() }() // a client that went away is its own affair
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		writeError(w, refuse("", "", "%s: %v", simkit.HeaderNow, err), "")
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		writeError(w, refuse("", "", "could not read the request body"), "")
		return
	}
	res := s.Call(req.URL.Path, body, req.Header, at)
	if !simkit.Wait(req, res.First.Sub(at)) {
		return
	}
	w.Header().Set("X-Request-Id", requestID(res.ID))
	switch {
	case res.Err != nil && res.Stream && res.api == responses && res.Err.Code == "context_length_exceeded":
		streamFailure(w, &res)
	case res.Err != nil:
		writeError(w, res.Err, res.ID)
	case res.Stream && res.api == chat:
		streamCompletion(w, &res)
	case res.Stream && res.api == responses:
		streamResponse(w, &res)
	default:
		simkit.WriteJSON(w, http.StatusOK, res.wire())
	}
}

func requestID(id string) string {
	_, number, _ := strings.Cut(id, "_")
	return "req_" + number
}

func writeError(w http.ResponseWriter, e *Error, id string) {
	w.Header().Set("X-Request-Id", requestID(id))
	simkit.WriteJSON(w, e.Status, map[string]any{"error": e})
}

// refuse answers and logs a request that is no part of the API.
func (s *Sim) refuse(w http.ResponseWriter, req *http.Request, f *Error) {
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		at = s.opts.Now()
	}
	s.mu.Lock()
	s.requests++
	id := s.id("resp")
	s.record(&Result{Status: f.Status, Err: f, ID: id}, req.URL.Path, nil, req.Header, at)
	s.mu.Unlock()
	writeError(w, f, id)
}

// Converse begins a conversation that the account of the headers can name in its requests, and returns its id.
func (s *Sim) Converse(h http.Header) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	id := s.id("conv")
	s.conversations[id] = &conversation{account: apiKey(h)}
	return id
}

func (s *Sim) converse(w http.ResponseWriter, req *http.Request) {
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		writeError(w, refuse("", "", "%s: %v", simkit.HeaderNow, err), "")
		return
	}
	simkit.WriteJSON(w, http.StatusOK, map[string]any{
		"id": s.Converse(req.Header), "object": "conversation", "created_at": at.Unix(), "metadata": map[string]string{},
	})
}

func (s *Sim) models(w http.ResponseWriter) {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		Owner   string `json:"owned_by"`
	}
	list := make([]entry, len(served))
	for i, id := range served {
		list[i] = entry{id, "model", 0, "openai"}
	}
	simkit.WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// listRequests writes the log; bodies only where the query asks for them with body=1.
func (s *Sim) listRequests(w http.ResponseWriter, req *http.Request) {
	type line struct {
		Received
		Cost float64 `json:"cost"`
	}
	bodies := req.URL.Query().Get("body") == "1"
	list := s.Requests()
	lines := make([]line, 0, len(list))
	for _, rec := range list {
		if !bodies {
			rec.Body = nil
		}
		lines = append(lines, line{rec, s.Cost(rec)})
	}
	simkit.WriteJSON(w, http.StatusOK, lines)
}
