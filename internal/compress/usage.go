package compress

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/access"
	billing "github.com/tidemark-dev/tidemark/internal/usage"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// How many answers are waited for, and how long: by then what they say would be of no use, as what was cached has lapsed.
const (
	maxSent = 4096
	keep    = time.Hour
)

const observeTimeout = time.Second // for the engine to take note of an answer

// sent are the outcomes that were returned and of which nothing was heard yet, by id.
type sent struct {
	outcomes *lru.Cache[string, *forwarded]
}

// forwarded is what was returned to a gateway.
type forwarded struct {
	request *pipeline.Request
	outcome *pipeline.Outcome
}

func newSent() *sent {
	c, _ := lru.New[string, *forwarded](maxSent) // fails for sizes below 1
	return &sent{c}
}

func (s *sent) put(id string, r *pipeline.Request, o *pipeline.Outcome) {
	s.outcomes.Add(id, &forwarded{r, o})
}

func (s *sent) forget(id string) { s.outcomes.Remove(id) }

// get returns what has an id and is not too old, nil if nothing has.
func (s *sent) get(id string, now time.Time) *forwarded {
	f, ok := s.outcomes.Get(id)
	if !ok || now.Sub(f.request.Now) > keep {
		s.outcomes.Remove(id)
		return nil
	}
	return f
}

// newID is an id that nobody guesses: who knows it may say what became of a request.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails on a supported platform
	return hex.EncodeToString(b[:])
}

// usage answers POST /v1/usage.
func (s *Server) usage(w http.ResponseWriter, r *http.Request) {
	body, _, ok := s.body(w, r)
	if !ok {
		return
	}
	if !json.Valid(body) || !gjson.ParseBytes(body).IsObject() {
		access.Refuse(w, http.StatusBadRequest, typeInvalid, errNoObject.Error())
		return
	}
	top := gjson.ParseBytes(body)
	id := top.Get("id").Str
	f := s.sent.get(id, s.o.Now())
	if f == nil {
		access.Refuse(w, http.StatusNotFound, typeNotFound, "nothing that has this id waits for its answer")
		return
	}
	said := told(f, top)
	if said.Status/100 == 2 && said.Usage == nil {
		access.Refuse(w, http.StatusUnprocessableEntity, typeNoUsage, "response or usage does not say what was billed")
		return
	}
	s.sent.forget(id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), observeTimeout)
	defer cancel()
	s.o.Observer.Observed(f.request, f.outcome, s.observe(ctx, f.outcome, &said))
	w.WriteHeader(http.StatusNoContent)
}

// told is what a gateway says of an answer.
func told(f *forwarded, top gjson.Result) pipeline.Response {
	document := top.Get("response").Raw
	if document == "" && top.Get("usage").Exists() {
		document = `{"usage":` + top.Get("usage").Raw + `}`
	}
	format := f.request.Format
	if named, ok := formats[top.Get("format").Str]; ok { // a gateway may answer in another format than it is asked in
		format = named
	}
	var said pipeline.Response
	if p := billing.For(format, "", "application/json", ""); p != nil {
		said = p.Read(strings.NewReader(document))
	}
	if said.Status = http.StatusOK; top.Get("status").Exists() {
		said.Status = int(top.Get("status").Int())
	}
	return said
}

// observe is the engine's call, with its panics contained: then it is nil.
func (s *Server) observe(ctx context.Context, o *pipeline.Outcome, r *pipeline.Response) (v *pipeline.Observation) {
	defer func() {
		if p := recover(); p != nil {
			s.logPanic("observe", p)
			v = nil
		}
	}()
	return s.o.Engine.Observe(ctx, o, r)
}
