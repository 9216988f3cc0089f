package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// ErrNoRequest says that a log has no request of that name.
var ErrNoRequest = errors.New("no request of that id")

// Explanation is what a log says of one request.
type Explanation struct {
	Request  *event.Request
	Move     *event.Move  // nil without one
	Usage    *event.Usage // nil if none was told
	Losses   []*event.Loss
	Restores []*event.Restore
	Reuses   []*event.Reuse
	Results  []*Standing // by message
	Unread   *Unread
}

// Standing is what stands for one tool result of the request's conversation, by what was said of it last. Logs say nothing of
// results that the client has taken away since.
type Standing struct {
	*event.Decision

	Call string // the result's; a cut has several
	N    int    // request of the lineage that said so
	Now  bool   // it is this request
}

// explainer follows what stands in every conversation, as the request's own is not known before it comes.
type explainer struct {
	id       string
	standing map[string]map[string]*Standing // by tenant, session and lineage; by call
	found    []*Explanation
	usages   []*event.Usage // that came before their request
}

// Explain looks for a request by its x-request-id or by the key that its events have, and says what was known of it. Several
// requests may have one x-request-id, as those that a client tries again; then the error names their keys.
func Explain(names []string, id string) (*Explanation, error) {
	x := &explainer{id: id, standing: map[string]map[string]*Standing{}}
	unread, err := Read(names, x.add)
	if err != nil {
		return nil, err
	}
	switch len(x.found) {
	case 0:
		return nil, fmt.Errorf("%w: %s", ErrNoRequest, id)
	case 1:
	default:
		keys := make([]string, len(x.found))
		for i, f := range x.found {
			keys[i] = f.Request.Key
		}
		return nil, fmt.Errorf("%d requests have the id %s; name one by its key: %q", len(keys), id, keys)
	}
	one := x.found[0]
	one.Unread = unread
	for _, u := range x.usages {
		if u.Key == one.Request.Key {
			one.Usage = u
		}
	}
	slices.SortStableFunc(one.Results, func(a, b *Standing) int {
		return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Call, b.Call))
	})
	return one, nil
}

func (x *explainer) add(e event.Event) {
	h := e.Of()
	if h.Key == "" {
		return
	}
	switch e := e.(type) {
	case *event.Request:
		x.request(e)
	case *event.Decision:
		x.decision(e)
	case *event.Usage:
		if h.Key == x.id || h.RequestID == x.id {
			x.usages = append(x.usages, e)
		}
	}
	one := x.of(h)
	if one == nil {
		return
	}
	switch e := e.(type) {
	case *event.Move:
		one.Move = e
	case *event.Loss:
		one.Losses = append(one.Losses, e)
	case *event.Restore:
		one.Restores = append(one.Restores, e)
	case *event.Reuse:
		one.Reuses = append(one.Reuses, e)
	}
}

// of is the explanation of a request that is looked for, nil for others.
func (x *explainer) of(h *event.Head) *Explanation {
	for _, f := range x.found {
		if f.Request.Key == h.Key {
			return f
		}
	}
	return nil
}

// request begins a conversation that was forked with what stands in the one it was forked from, and keeps what stands for a
// request that is looked for.
func (x *explainer) request(e *event.Request) {
	place := conversation(&e.Head, e.Lineage)
	if x.standing[place] == nil {
		x.standing[place] = map[string]*Standing{}
		if e.Parent != "" {
			for call, s := range x.standing[conversation(&e.Head, e.Parent)] {
				before := *s
				before.Now = false
				x.standing[place][call] = &before
			}
		}
	}
	if e.Key != x.id && e.RequestID != x.id {
		return
	}
	one := &Explanation{Request: e}
	if !e.Side {
		one.Results = slices.Collect(maps.Values(x.standing[place]))
	}
	x.found = append(x.found, one)
}

func conversation(h *event.Head, lineage string) string {
	return h.Tenant + "/" + h.Session + "/" + lineage
}

// decision notes what stands for its results from now on.
func (x *explainer) decision(e *event.Decision) {
	place := conversation(&e.Head, e.Lineage)
	if x.standing[place] == nil { // the log begins within the conversation
		x.standing[place] = map[string]*Standing{}
	}
	calls := e.Calls
	if len(calls) == 0 {
		calls = []string{e.Call}
	}
	one := x.of(&e.Head)
	for _, call := range calls {
		s := &Standing{Decision: e, Call: call, N: e.N}
		x.standing[place][call] = s
		if one != nil {
			now := *s
			now.Now = true
			one.Results = append(slices.DeleteFunc(one.Results, func(r *Standing) bool { return r.Call == call }), &now)
		}
	}
}
