package gemini

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// ServeHTTP is the provider's API, and /sim/ to look at the simulator and to reset it.
func (s *Sim) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.Path
	_, known := endpointOf(path)
	switch {
	case req.Method == http.MethodPost && known:
		s.post(w, req)
	case req.Method == http.MethodGet && path == "/sim/requests":
		s.listRequests(w, req)
	case req.Method == http.MethodPost && path == "/sim/reset":
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	default:
		s.refuse(w, req, notFound())
	}
}

func (s *Sim) post(bare http.ResponseWriter, req *http.Request) {
	w, err := simkit.NewOutlet(bare, req)
	if err != nil {
		writeError(bare, &Result{Err: refuse("%v", err)})
		return
	}
	defer func() { _ = w.Close() }() // a client that went away is its own affair
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		writeError(w, &Result{Err: refuse("%s: %v", simkit.HeaderNow, err)})
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		writeError(w, &Result{Err: refuse("could not read the request body")})
		return
	}
	path := req.URL.Path
	if req.URL.RawQuery != "" {
		path += "?" + req.URL.RawQuery
	}
	res := s.Call(path, body, req.Header, at)
	if !simkit.Wait(req, res.First.Sub(at)) {
		return
	}
	switch {
	case res.Err != nil:
		writeError(w, &res)
	case !res.Stream:
		b, err := res.JSON()
		if err != nil {
			http.Error(w, "marshal answer: "+err.Error(), http.StatusInternalServerError)
			return
		}
		simkit.WriteJSON(w, http.StatusOK, json.RawMessage(b))
	default:
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		if res.SSE {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.WriteHeader(http.StatusOK)
		res.stream(w, http.NewResponseController(w).Flush)
	}
}

// writeError refuses. A stream that is an array has the error in an array.
func writeError(w http.ResponseWriter, res *Result) {
	wire := map[string]*Error{"error": res.Err}
	if res.Stream && !res.SSE {
		simkit.WriteJSON(w, res.Err.Status, []map[string]*Error{wire})
		return
	}
	simkit.WriteJSON(w, res.Err.Status, wire)
}

// refuse answers and logs a request that is no part of the API.
func (s *Sim) refuse(w http.ResponseWriter, req *http.Request, f *Error) {
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		at = s.opts.Now()
	}
	s.mu.Lock()
	s.requests++
	res := Result{Status: f.Status, Err: f, ID: s.id()}
	s.record(&res, req.URL.Path, nil, req.Header, at)
	s.mu.Unlock()
	writeError(w, &res)
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
