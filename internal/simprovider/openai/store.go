package openai

import (
	"net/http"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// storedLife is how long the provider keeps an answer.
const storedLife = 30 * 24 * time.Hour

// keptAnswers bounds how many items of answers and their conversations are kept together.
const keptAnswers = 1 << 20

// stored is a conversation that the provider keeps, as it stands after one answer.
type stored struct {
	account string // nobody else can continue it
	items   []*item
}

// conversation is one that requests name by its own id.
type conversation struct {
	account string
	items   []*item
}

// issue is what the simulator knows about encrypted content that it issued.
type issue struct {
	account string
	id      string // of its item
	next    *item  // the item that followed the reasoning in its answer, nil for none
}

// sealPrefix marks encrypted content that this simulator issued.
const sealPrefix = "gAAAAtidemark-sim."

const (
	notPersisted = "Item with id '%s' not found. Items are not persisted when `store` is set to false. " +
		"Try again with `store` set to true, or remove this item from your input."
	tooFew = `One of "input" or "previous_response_id" or 'prompt' or 'conversation_id' must be provided.`
)

// readItems reads the conversation: what the provider keeps of it, then what the body holds.
func (s *Sim) readItems(r *request, b *body) *Error {
	kept, f := s.keptItems(r, b)
	if f != nil {
		return f
	}
	own, f := s.ownItems(r, b, len(kept) > 0)
	if f != nil {
		return f
	}
	for i, it := range own {
		if it.flaw != nil {
			return it.flaw.at(indexed(r.api.list(), i))
		}
		bare := it.kind == "reasoning" && it.sealed == ""
		if !it.shrouds && !bare {
			continue
		}
		at, found := s.known[it.id]
		if !found && it.shrouds {
			return notFound(it.id)
		}
		if found {
			own = slices.Clone(own)
			own[i] = at
		}
	}
	r.items, r.fresh = slices.Concat(kept, own), len(kept)
	return nil
}

func notFound(id string) *Error {
	f := refuse("input", "", notPersisted, id)
	f.Status = http.StatusNotFound
	return f
}

// ownItems returns what the body itself holds of the conversation.
func (s *Sim) ownItems(r *request, b *body, continues bool) ([]*item, *Error) {
	name := r.api.list()
	n := b.values[name]
	switch {
	case b.list && len(b.items) == 0 && r.api == chat:
		return nil, empty(name).at("")
	case b.list && (len(b.items) > 0 || continues):
		return b.items, nil
	case r.api == chat && n != nil && !b.list:
		return nil, badType(name, anArray, n).at("")
	case r.api == chat:
		return nil, missing(name).at("")
	case n != nil && n.Kind == 's':
		it := &item{kind: "message", role: "user"}
		lead := leadOf("user", &simkit.Node{Kind: '{'})
		return []*item{it}, s.parser.readParts(it, n, lead, name, "input_text", inputParts).refusal()
	case n != nil && !n.Is("null") && !b.list:
		return nil, badType(name, "one of a string or array of objects", n).at("")
	case !continues:
		return nil, refuse("input", codeMissing, tooFew)
	}
	return nil, nil
}

func (f *flaw) refusal() *Error {
	if f == nil {
		return nil
	}
	return f.at("")
}

// keptItems returns what the provider keeps of the conversation that a request continues.
func (s *Sim) keptItems(r *request, b *body) ([]*item, *Error) {
	previous, f := named(b, "previous_response_id")
	if f != nil || r.api == chat {
		return nil, f
	}
	id, f := named(b, "conversation")
	switch {
	case f != nil:
		return nil, f
	case id != "" && previous != "":
		return nil, refuse("previous_response_id", "mutually_exclusive_parameters",
			"Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only providing one of them.")
	case previous != "":
		old, found := s.answers.Get(previous, s.now)
		if !found || old.account != r.account {
			return nil, refuse("previous_response_id", "previous_response_not_found", "Previous response with id '%s' not found.", previous)
		}
		return old.items, nil
	case id != "":
		c := s.conversations[id]
		if c == nil || c.account != r.account {
			f := refuse("conversation", "", "Conversation with id '%s' not found.", id)
			f.Status = http.StatusNotFound
			return nil, f
		}
		r.conversation = c
		return c.items, nil
	}
	return nil, nil
}

// named reads the member that names a conversation: its id, or an object with the id.
func named(b *body, name string) (string, *Error) {
	n := b.values[name]
	if n == nil || n.Is("null") {
		return "", nil
	}
	if n.Kind == '{' && name == "conversation" {
		if f := wants(n, name, "id", 's'); f != nil {
			return "", f.at("")
		}
		n = n.Get("id")
	}
	if n.Kind != 's' {
		return "", badType(name, aString, n).at("")
	}
	return n.Text, nil
}

// keep stores the conversation with its answer, so that it can be continued.
func (s *Sim) keep(r *request, res *Result, answer []*item) {
	if r.conversation != nil {
		r.conversation.items = slices.Concat(r.items, answer)
	}
	if !r.store {
		return
	}
	items := slices.Concat(r.items, answer)
	s.answers.Put(res.ID, &stored{r.account, items}, 1+len(items), res.First.Add(storedLife))
	for _, it := range answer {
		if it.id != "" {
			s.known[it.id] = it
		}
	}
}
