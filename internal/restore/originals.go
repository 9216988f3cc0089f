package restore

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/state"
)

// NoteHeader says that there is more of what was asked for, and how to ask for it.
const NoteHeader = "X-Tidemark-Note"

// Limits of a request.
const (
	maxQuery  = 4 << 10         // bytes
	maxRanges = 8               // ranges of one request; more are ignored, and the whole is given
	largeSize = 64 << 10        // bytes from which an original counts as large
	maxWait   = 2 * time.Second // for a look-up to begin
)

// original answers GET /v1/originals/{id}.
func (s *Server) original(w http.ResponseWriter, r *http.Request, id string) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	ask, raw, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		s.o.Observer.Restored(Event{Path: HTTP, Result: Refused})
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	release, ok := s.look(r.Context())
	if !ok {
		s.busy(w)
		return
	}
	defer func() { release() }()
	o, err := s.take(r, id)
	if err != nil {
		result, status, text := s.why(r.Context(), id, err)
		s.o.Observer.Restored(Event{Path: HTTP, Result: result})
		say(w, status, text)
		return
	}
	if len(o.Content) >= largeSize {
		select {
		case s.held <- struct{}{}:
			defer func() { <-s.held }()
		default:
			s.busy(w)
			return
		}
	}
	release()
	release = func() {}
	s.serve(w, r, o, ask, raw)
}

// look waits until another original may be looked up, and returns what ends that. It is false if that takes too long.
func (s *Server) look(ctx context.Context) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case s.looking <- struct{}{}:
		return func() { <-s.looking }, true
	case <-ctx.Done():
		return nil, false
	}
}

// busy says that there is no room for another original.
func (s *Server) busy(w http.ResponseWriter) {
	s.o.Observer.Restored(Event{Path: HTTP, Result: Refused})
	w.Header().Set("Retry-After", "1")
	say(w, http.StatusServiceUnavailable, part.Unavailable)
}

// parseQuery reads what is asked for, and whether it is the JSON as it stood.
func parseQuery(query string) (ask part.Ask, raw bool, err error) {
	values, err := url.ParseQuery(query)
	if err != nil || len(query) > maxQuery {
		return ask, false, errors.New("the query cannot be read")
	}
	if values.Has("raw") {
		if raw = values.Get("raw") == "1"; !raw || len(values) > 1 || len(values["raw"]) > 1 {
			return ask, false, errors.New("raw must be 1 and stand alone")
		}
		return ask, true, nil
	}
	ask, err = part.ParseQuery(values)
	return ask, false, err
}

// serve gives an original back.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, o *state.Original, ask part.Ask, raw bool) {
	h := w.Header()
	tag, filter := hex.EncodeToString(o.SHA256[:]), o.Filter
	var content io.ReadSeeker
	var sample string
	if raw {
		content, sample = bytes.NewReader(o.Content), string(o.Content[:min(len(o.Content), maxEst)])
		h.Set("Content-Type", "application/json")
	} else {
		piece, err := part.Cut(part.Unwrap(o.Content), ask)
		if err != nil {
			status := http.StatusBadRequest
			if errors.Is(err, part.ErrBeyond) {
				status = http.StatusRequestedRangeNotSatisfiable
			}
			s.o.Observer.Restored(Event{Path: HTTP, Result: Refused})
			say(w, status, err.Error())
			return
		}
		if piece.Note != "" {
			h.Set(NoteHeader, piece.Note)
		}
		content, sample = strings.NewReader(piece.Text), piece.Text[:min(len(piece.Text), maxEst)]
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("ETag", `"`+tag+`"`)
	if ranges := r.Header.Values("Range"); len(ranges) > 1 || len(ranges) == 1 && strings.Count(ranges[0], ",") >= maxRanges {
		r.Header.Del("Range")
	}
	counted := &counter{w, func(status, length int) {
		switch {
		case status == http.StatusRequestedRangeNotSatisfiable:
			s.o.Observer.Restored(Event{Path: HTTP, Result: Refused})
		case r.Method == http.MethodHead || status >= http.StatusMultipleChoices:
		default:
			s.o.Observer.Restored(Event{Path: HTTP, Result: OK, Filter: filter, Bytes: length, Tokens: est(sample, length)})
		}
	}}
	http.ServeContent(counted, r, "", time.Time{}, content)
}

// span is what is told of an original besides its content.
type span struct {
	ID     string    `json:"id"`
	About  string    `json:"about,omitempty"`
	Tool   string    `json:"tool,omitempty"`
	Call   string    `json:"call,omitempty"`
	Filter string    `json:"filter,omitempty"`
	Size   int       `json:"size"` // bytes of the JSON as it stood
	At     time.Time `json:"at"`
	Fate   string    `json:"fate"`
}

var fates = [...]string{state.Kept: "kept", state.Sealed: "sealed", state.Withdrawn: "withdrawn"}

// spans lists originals, the latest first.
func spans(originals []state.Original) []span {
	list := make([]span, 0, len(originals))
	for i := range originals {
		o := &originals[i]
		list = append(list, span{o.ID, o.About, o.Tool, o.Call, o.Filter, o.Size, o.At, fates[o.Fate]})
	}
	return list
}

// siblings answers GET /v1/originals/{id}/siblings: whoever was shown an id may know what else was left out of its session.
func (s *Server) siblings(w http.ResponseWriter, r *http.Request, id string) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	list, err := s.family(r, id)
	if err != nil {
		_, status, text := s.why(r.Context(), id, err)
		say(w, status, text)
		return
	}
	answer(w, struct {
		Spans []span `json:"spans"`
	}{list})
}

// family lists the originals of an original's session.
func (s *Server) family(r *http.Request, id string) ([]span, error) {
	release, ok := s.look(r.Context())
	if !ok {
		return nil, errBusy
	}
	defer release()
	owner, err := s.owner(r, id)
	if err != nil {
		return nil, err
	}
	list, err := s.o.Store.Originals(r.Context(), owner)
	if err != nil {
		return nil, err //nolint:wrapcheck // why tells it
	}
	return spans(list), nil
}

// allow refuses other methods than these.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	if slices.Contains(methods, r.Method) {
		return true
	}
	list := strings.Join(methods, ", ")
	w.Header().Set("Allow", list)
	say(w, http.StatusMethodNotAllowed, "the method must be "+strings.Join(methods, " or "))
	return false
}

// missing is the answer to whatever is not here, and to whoever may not know.
func missing(w http.ResponseWriter) { say(w, http.StatusNotFound, part.Missing) }

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client went away
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the client went away
}
