package simprovider

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// ServeHTTP is the provider's API, and /sim/ to look at the simulator and to reset it.
func (s *Sim) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch req.Method + " " + req.URL.Path {
	case "POST " + pathMessages, "POST " + pathCount:
		s.post(w, req)
	case "GET /v1/models":
		s.models(w)
	case "GET /api/hello", "HEAD /api/hello":
		simkit.WriteJSON(w, http.StatusOK, map[string]string{"message": "hello"})
	case "GET /sim/requests":
		s.listRequests(w, req)
	case "POST /sim/reset":
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	default:
		s.notFound(w, req)
	}
}

func (s *Sim) post(bare http.ResponseWriter, req *http.Request) {
	w, err := simkit.NewOutlet(bare, req)
	if err != nil {
		writeError(bare, refuse("%v", err), "")
		return
	}
	defer func() { _ = w.Close() }() // a client that went away is its own affair
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		writeError(w, refuse("%s: %v", simkit.HeaderNow, err), "")
		return
	}
	body, header, err := readBody(req)
	if err != nil {
		writeError(w, refuse("could not read the request body"), "")
		return
	}
	res := s.serve(req.URL.Path, body, header, at)
	if !simkit.Wait(req, res.First.Sub(at)) {
		return
	}
	switch {
	case res.Err != nil:
		writeError(w, res.Err, res.ID)
	case req.URL.Path == pathCount:
		w.Header().Set("Request-Id", requestID(res.ID))
		simkit.WriteJSON(w, http.StatusOK, struct {
			Input           int              `json:"input_tokens"`
			Transformations []Transformation `json:"input_transformations,omitempty"`
		}{res.Prompt, res.Transformations})
	case res.Stream:
		w.Header().Set("Request-Id", requestID(res.ID))
		stream(w, &res)
	default:
		w.Header().Set("Request-Id", requestID(res.ID))
		simkit.WriteJSON(w, http.StatusOK, res.wire())
	}
}

func requestID(id string) string { return "req_" + strings.TrimPrefix(id, "msg_") }

func writeError(w http.ResponseWriter, e *Error, id string) {
	w.Header().Set("Request-Id", requestID(id))
	simkit.WriteJSON(w, e.Status, map[string]any{"type": "error", "error": e, "request_id": requestID(id)})
}

// notFound refuses what is no part of the API.
func (s *Sim) notFound(w http.ResponseWriter, req *http.Request) {
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		at = s.opts.Now()
	}
	e := &Error{Status: http.StatusNotFound, Type: "not_found_error", Message: "Not found"}
	s.mu.Lock()
	s.requests++
	id := fmt.Sprintf("msg_sim%012d", s.requests)
	s.record(&Result{Status: e.Status, Err: e, ID: id}, req.URL.Path, nil, req.Header, at)
	s.mu.Unlock()
	writeError(w, e, id)
}

func (s *Sim) models(w http.ResponseWriter) {
	type entry struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Name string `json:"display_name"`
	}
	list := make([]entry, len(catalogue))
	for i, id := range catalogue {
		list[i] = entry{"model", id, id}
	}
	simkit.WriteJSON(w, http.StatusOK, map[string]any{
		"data": list, "has_more": false, "first_id": catalogue[0], "last_id": catalogue[len(catalogue)-1],
	})
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
