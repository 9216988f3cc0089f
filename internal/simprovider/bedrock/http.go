package bedrock

import (
	"io"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// ServeHTTP is Bedrock's runtime API, and /sim/ to look at the simulator and to reset it.
func (s *Sim) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := req.URL.EscapedPath()
	_, known := endpointOf(path)
	switch {
	case req.Method == http.MethodPost && known:
		s.post(w, req, path)
	case req.Method == http.MethodGet && path == "/sim/requests":
		s.listRequests(w, req)
	case req.Method == http.MethodPost && path == "/sim/reset":
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	default:
		s.refuse(w, req, unknownOperation())
	}
}

func (s *Sim) post(bare http.ResponseWriter, req *http.Request, path string) {
	w, err := simkit.NewOutlet(bare, req)
	if err != nil {
		writeError(bare, invalid("%v", err), "")
		return
	}
	defer func() { _ = w.Close() }() // a client that went away is its own affair
	at, err := simkit.Time(req.Header, s.opts.Now)
	if err != nil {
		writeError(w, invalid("%s: %v", simkit.HeaderNow, err), "")
		return
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		writeError(w, invalid("could not read the request body"), "")
		return
	}
	res := s.Call(path, body, req.Header, at)
	if !simkit.Wait(req, res.First.Sub(at)) {
		return
	}
	if res.Err != nil {
		writeError(w, res.Err, res.ID)
		return
	}
	write(w, &res)
}

// write writes an answer that is no refusal.
func write(w http.ResponseWriter, res *Result) {
	h := w.Header()
	h.Set("X-Amzn-Requestid", res.ID)
	if res.Stream {
		h.Set("Content-Type", "application/vnd.amazon.eventstream")
		if res.api == invoke {
			h.Set("X-Amzn-Bedrock-Content-Type", "application/json")
		}
		w.WriteHeader(http.StatusOK)
		f := &frames{w, http.NewResponseController(w).Flush, eventstream.NewEncoder()}
		if res.api == invoke {
			res.streamInvoke(f)
		} else {
			res.streamConverse(f)
		}
		return
	}
	b, err := res.JSON()
	if err != nil {
		http.Error(w, "marshal answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "application/json")
	if res.api == invoke {
		h.Set("X-Amzn-Bedrock-Input-Token-Count", strconv.Itoa(res.Usage.Input))
		h.Set("X-Amzn-Bedrock-Output-Token-Count", strconv.Itoa(res.Usage.Output))
		h.Set("X-Amzn-Bedrock-Cache-Read-Input-Token-Count", strconv.Itoa(res.Usage.Read))
		h.Set("X-Amzn-Bedrock-Cache-Write-Input-Token-Count", strconv.Itoa(res.Usage.Write5m+res.Usage.Write1h))
		h.Set("X-Amzn-Bedrock-Invocation-Latency", strconv.Itoa(latency))
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(b) // a client that went away is its own affair
}

// namespace follows the type of an error.
const namespace = ":http://internal.amazon.com/coral/com.amazon.bedrock/"

func writeError(w http.ResponseWriter, e *Error, id string) {
	w.Header().Set("X-Amzn-Requestid", id)
	w.Header().Set("X-Amzn-Errortype", e.Type+namespace)
	simkit.WriteJSON(w, e.Status, e)
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
	writeError(w, f, res.ID)
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
