package simprovider

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// threadLife is how long a thread can be continued after the last answer that was stored for it.
const threadLife = 5 * time.Minute

// keptThreads bounds how many answers a thread can be continued from.
const keptThreads = 1024

// thread is a conversation that the provider keeps, as it stands after one answer.
type thread struct {
	key           string            // the API key: nobody else can continue it
	fixed         map[string]digest // members that must stay as the first request had them
	tools, system *head
	messages      []*message
	continued     bool
	previous      *thread // of a request that continues one: what it continues
}

// fixedFields are the members that must not change within a thread, and the set of betas.
var fixedFields = []string{
	"model", "thinking", "tool_choice", "output_config", "output_format", "cache_control", "context_management", "speed", "anthropic-beta",
}

// replayWhole ends the words of a refusal that the whole conversation answers.
const replayWhole = "Replay the full conversation with thread: {\"type\": \"create\"} to start a new Thread."

// thread returns the thread that the answer to a request belongs to, nil without one. The body of a request that continues
// a thread becomes the whole conversation: tools and system as the thread was created with them, breakpoints included, and
// its messages so far, whose breakpoints count no longer, before the new ones. Paths in refusals count from its first message.
//
// Of the words of the refusals only these are known from the provider: the whole 404, "differing field(s): …" and "already
// been continued".
func (s *Sim) thread(b *body, h http.Header, at time.Time) (*thread, *Error) {
	n := b.values["thread"]
	if n == nil || n.Is("null") {
		return nil, nil
	}
	if !hasBeta(h, betaThreads) {
		return nil, refuse("thread: %s", extra)
	}
	id, f := continues(n)
	if f != nil {
		return nil, f
	}
	if limit := b.values["max_tokens"]; s.opts.NoThreads || limit != nil && limit.Text == "0" {
		return nil, coded(400, "thread_unsupported_request",
			"thread: message threads are not available for this request. Send the whole conversation.")
	}
	next := &thread{key: apiKey(h), fixed: fixedOf(b, h), tools: b.tools, system: b.system}
	if id == "" {
		return next, nil
	}
	old, found := s.threads.Get(id, at)
	if !found || old.key != next.key {
		return nil, coded(404, "thread_not_found", "No thread state was found for the requested `previous_message_id`. "+replayWhole)
	}
	if old.continued {
		return nil, coded(400, "thread_already_continued",
			"thread: the requested `previous_message_id` has already been continued. "+replayWhole)
	}
	differing := slices.DeleteFunc(slices.Clone(fixedFields), func(name string) bool { return old.fixed[name] == next.fixed[name] })
	if len(differing) > 0 {
		return nil, coded(400, "thread_fingerprint_mismatch", "thread: the request does not match the thread; differing field(s): "+
			strings.Join(differing, ", ")+". "+replayWhole)
	}
	switch {
	case b.tools != nil:
		return nil, refuse("tools: %s", extra)
	case b.system != nil:
		return nil, refuse("system: %s", extra)
	}
	next.previous, next.tools, next.system = old, old.tools, old.system
	b.tools, b.system = old.tools, old.system
	if len(b.messages) > 0 {
		b.messages = slices.Concat(old.messages, b.messages)
	}
	return next, nil
}

// continues reads the member thread: the id of the answer that is continued, empty to create a thread.
func continues(n *node) (string, *Error) {
	if n.Kind != '{' {
		return "", refuse("thread: %s", notObject)
	}
	kind, ok := n.Str("type")
	if !ok {
		return "", refuse("thread: Unable to extract tag using discriminator 'type'")
	}
	switch kind {
	case "create":
		if rest := n.Without("type"); len(rest.Names) > 0 {
			return "", refuse("thread.create.%s: %s", rest.Names[0], extra)
		}
		return "", nil
	case "continue":
		if f := requires(n, "thread.continue", "previous_message_id", 's'); f != nil {
			return "", f.at("")
		}
		id, _ := n.Str("previous_message_id")
		if rest := n.Without("type", "previous_message_id"); len(rest.Names) > 0 {
			return "", refuse("thread.continue.%s: %s", rest.Names[0], extra)
		}
		if !strings.HasPrefix(id, "msg_") {
			return "", refuse("thread.continue.previous_message_id: Input should be the id of a message")
		}
		return id, nil
	}
	return "", refuse("thread: Input tag '%s' found using 'type' does not match any of the expected tags: 'create', 'continue'", kind)
}

// coded is a refusal with an error code in its details.
func coded(status int, code, message string) *Error {
	e := refuse("%s", message)
	if e.Status = status; status == http.StatusNotFound {
		e.Type = "not_found_error"
	}
	e.Details = map[string]string{"error_code": code}
	return e
}

func fixedOf(b *body, h http.Header) map[string]digest {
	out := map[string]digest{"anthropic-beta": simkit.Sum([]byte(strings.Join(betas(h), ",")))}
	for _, name := range fixedFields {
		if n := b.values[name]; n != nil {
			out[name] = simkit.Sum(n.Encode(nil, true))
		}
	}
	return out
}

// keep stores the conversation with its answer, so that it can be continued.
func (s *Sim) keep(r *request, res *Result) error {
	t := r.thread
	t.messages = make([]*message, 0, len(r.messages)+1)
	for _, m := range r.messages {
		t.messages = append(t.messages, m.unmarked())
	}
	if len(res.Content) > 0 {
		raw, err := json.Marshal(map[string]any{"role": "assistant", "content": res.Content})
		if err != nil {
			return err
		}
		m, err := s.parser.message(raw)
		if err != nil {
			return err
		}
		t.messages = append(t.messages, m)
	}
	if t.previous != nil {
		t.previous.continued, t.previous.messages = true, nil
		t.previous = nil
	}
	s.threads.Put(res.ID, t, 1, res.First.Add(threadLife))
	return nil
}

// unmarked returns the message without breakpoints.
func (m *message) unmarked() *message {
	if !m.marked() {
		return m
	}
	out := &message{role: m.role, blocks: slices.Clone(m.blocks)}
	for i, b := range out.blocks {
		if b.mark != nil || len(b.nested) > 0 {
			plain := *b
			plain.mark, plain.nested = nil, nil
			out.blocks[i] = &plain
		}
	}
	return out
}
