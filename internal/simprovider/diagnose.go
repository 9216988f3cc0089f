package simprovider

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Limits on what diagnoses compare with. How long the provider keeps fingerprints is not documented; clients saw
// previous_message_not_found after pauses of more than an hour.
const (
	fingerprintLife = time.Hour
	keptBlocks      = 1 << 20 // of the prompts of all fingerprints
)

// Reasons of a cache miss, in the provider's words.
const (
	ModelChanged            = "model_changed"
	ToolsChanged            = "tools_changed"
	SystemChanged           = "system_changed"
	MessagesChanged         = "messages_changed"
	PreviousMessageNotFound = "previous_message_not_found"
	Unavailable             = "unavailable" // another parameter that the prompt depends on differs
)

// CacheMiss says where a prompt first leaves the prompt that it was compared with.
type CacheMiss struct {
	Reason string
	Tokens int // that were cached behind that place; only of reasons that end in "_changed"
}

// MarshalJSON writes the miss in the provider's shape.
func (c CacheMiss) MarshalJSON() ([]byte, error) {
	wire := struct {
		Type   string `json:"type"`
		Tokens *int   `json:"cache_missed_input_tokens,omitempty"`
	}{Type: c.Reason}
	if strings.HasSuffix(c.Reason, "_changed") {
		wire.Tokens = &c.Tokens
	}
	return json.Marshal(wire)
}

// fingerprint is what a diagnosis knows of an earlier request.
type fingerprint struct {
	key           string // the API key
	model         string
	head, tail    digest // parameters before system, and before messages
	tools, system int    // blocks of each
	values        []digest
	size          []int
	cached        int // tokens of the prompt that were read or written
}

func fingerprintOf(r *request, p *prompt, u Usage, h http.Header) *fingerprint {
	tail := slices.Concat(r.rest, r.tail)
	return &fingerprint{
		key: apiKey(h), model: r.model, head: simkit.Sum(r.head), tail: simkit.Sum(simkit.AppendText(tail, strings.Join(betas(h), ","))),
		tools: p.tools, system: p.system, values: p.values, size: p.size, cached: p.total() - u.Input,
	}
}

// diagnose compares a request with the one whose answer it names, and keeps its fingerprint for the next. It compares what was
// sent, whether or not the cache was hit. Nil is no difference: every block of the earlier prompt stands where it stood.
func (s *Sim) diagnose(r *request, now *fingerprint, id string, at time.Time) *CacheMiss {
	defer s.prints.Put(id, now, len(now.values)+1, at.Add(fingerprintLife))
	if r.diagnose.previous == "" {
		return nil
	}
	old, found := s.prints.Get(r.diagnose.previous, at)
	if !found || old.key != now.key {
		return &CacheMiss{Reason: PreviousMessageNotFound}
	}
	return old.left(now)
}

// left returns where a prompt leaves the earlier one, in the order in which prompts are built.
func (old *fingerprint) left(now *fingerprint) *CacheMiss {
	same := 0
	for same < min(len(old.values), len(now.values)) && old.values[same] == now.values[same] {
		same++
	}
	changed := func(reason string, same int) *CacheMiss {
		before := 0
		if same > 0 {
			before = old.size[same-1]
		}
		return &CacheMiss{reason, max(0, old.cached-before)}
	}
	switch {
	case old.model != now.model:
		return changed(ModelChanged, 0)
	case old.tools != now.tools || same < old.tools:
		return changed(ToolsChanged, min(same, old.tools, now.tools))
	case old.head != now.head:
		return &CacheMiss{Reason: Unavailable}
	case old.system != now.system || same < old.tools+old.system:
		return changed(SystemChanged, min(same, old.tools+min(old.system, now.system)))
	case old.tail != now.tail:
		return &CacheMiss{Reason: Unavailable}
	case same < len(old.values):
		return changed(MessagesChanged, same)
	}
	return nil
}

// diagnosis is what a request asks for with its member diagnostics.
type diagnosis struct {
	wanted   bool
	previous string // id of the answer to compare with; empty on a first turn
}

// readDiagnostics reads the member diagnostics. It needs no beta any more.
func (r *request) readDiagnostics(b *body) *Error {
	n := b.values["diagnostics"]
	if n == nil || n.Is("null") {
		return nil
	}
	if n.Kind != '{' {
		return refuse("diagnostics: %s", notObject)
	}
	for i, name := range n.Names {
		switch id := n.Kids[i]; {
		case name != "previous_message_id":
			return refuse("diagnostics.%s: %s", name, extra)
		case id.Is("null"):
		case id.Kind != 's':
			return refuse("diagnostics.previous_message_id: %s", notString)
		default:
			r.diagnose.previous = id.Text
		}
	}
	r.diagnose.wanted = true
	return nil
}
