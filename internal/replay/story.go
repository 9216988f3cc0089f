package replay

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// story is what a session says, whatever is done to it: who introduced which identifier, and what the model used when.
type story struct {
	said       map[int]saying      // by request: what the model said since the conversation's last one
	introduced map[string][]string // by call: identifiers that stood nowhere before its result
	path       map[string]string   // by call: the file that it reads
	threads    map[string]*thread
}

// saying is what the model said, thinking left out.
type saying struct {
	used  map[string]bool // identifiers in text and in arguments of calls
	reads map[string]bool // files
}

// thread is one conversation of the session.
type thread struct {
	messages int
	blocks   int32           // of the last one
	known    map[string]bool // identifiers so far
}

func newStory() *story {
	return &story{said: map[int]saying{}, introduced: map[string][]string{}, path: map[string]string{}, threads: map[string]*thread{}}
}

// read takes in the messages that are new in a body. A body that cannot be read says nothing.
func (s *story) read(n int, r *Request, body []byte) {
	ix, err := transcript.Parse(body, r.wire.Format)
	if err != nil {
		return
	}
	defer ix.Release()
	t := s.threads[r.Lineage]
	if t == nil {
		t = &thread{known: map[string]bool{}}
		s.threads[r.Lineage] = t
	}
	said := saying{used: map[string]bool{}, reads: map[string]bool{}}
	for m := min(t.messages, len(ix.Messages)); m < len(ix.Messages); m++ {
		s.message(ix, ix.Messages[m], t, &said)
	}
	if n := t.messages - 1; n >= 0 && n < len(ix.Messages) && openAI(ix.Format) {
		grown := ix.Messages[n] // a run of items that went on
		grown.First = min(grown.First+t.blocks, grown.Last)
		s.message(ix, grown, t, &said)
	}
	t.messages = len(ix.Messages)
	t.blocks = ix.Messages[t.messages-1].Last - ix.Messages[t.messages-1].First
	s.said[n] = said
}

func (s *story) message(ix *transcript.Index, m transcript.Message, t *thread, said *saying) {
	if m.Role == transcript.Assistant {
		s.answer(ix, &m, t, said)
	} else {
		s.heard(ix, &m, t)
	}
}

// answer takes in what the model said.
func (s *story) answer(ix *transcript.Index, m *transcript.Message, t *thread, said *saying) {
	for i := m.First; i < m.Last; i++ {
		b := &ix.Blocks[i]
		if b.Kind == transcript.Thinking {
			continue
		}
		for _, id := range identifiers(legible(b.Raw.Of(ix.Body), ix.Format)) {
			said.used[id], t.known[id] = true, true
		}
		if b.Call < 0 {
			continue
		}
		f := ix.CallFacts(b.Call)
		if f.Role == transcript.Read && f.Path != "" {
			said.reads[f.Path] = true
			s.path[gjson.ParseBytes(ix.Calls[b.Call].ID.Of(ix.Body)).Str] = f.Path
		}
	}
}

// heard takes in a message to the model: a result introduces what neither stood before nor stands beside it.
func (s *story) heard(ix *transcript.Index, m *transcript.Message, t *thread) {
	found := make([][]string, 0, m.Last-m.First)
	spread := map[string]int{}
	for i := m.First; i < m.Last; i++ {
		ids := identifiers(legible(ix.Blocks[i].Raw.Of(ix.Body), ix.Format))
		found = append(found, ids)
		for _, id := range ids {
			spread[id]++
		}
	}
	for i, ids := range found {
		b := &ix.Blocks[m.First+int32(i)]
		if b.Result < 0 {
			continue
		}
		call := strings.Clone(ix.CallID(&ix.Results[b.Result]))
		if s.introduced[call] != nil {
			continue
		}
		for _, id := range ids {
			if !t.known[id] && spread[id] == 1 && id != call {
				s.introduced[call] = append(s.introduced[call], id)
			}
		}
	}
	for id := range spread {
		t.known[id] = true
	}
}

var (
	candidate = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_./:-]{3,63}|[0-9]{5,}`)
	step      = regexp.MustCompile(`[a-z][A-Z]`)
	// escapes end a word in JSON just as what they stand for does.
	escapes = strings.NewReplacer(`\n`, "  ", `\t`, "  ", `\r`, "  ", `\"`, "  ", `\\`, "  ", `\/`, "/")
)

// legible is raw JSON in which escapes of strings within strings are escapes like others: OpenAI's formats have arguments, and
// results that are JSON, as strings.
func legible(raw []byte, f transcript.Format) []byte {
	if !openAI(f) {
		return raw
	}
	return bytes.ReplaceAll(raw, []byte(`\\`), []byte(`\`))
}

// identifiers lists, once each, the words of raw JSON that look like names of something in particular: with an inner
// separator, a digit, or a step from lower to upper case, or a number of five digits.
func identifiers(raw []byte) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range candidate.FindAllString(escapes.Replace(string(raw)), -1) {
		w = strings.Trim(w, "._:-/")
		if len(w) >= 4 && !seen[w] && (strings.ContainsAny(w, "_./:-0123456789") || step.MatchString(w)) {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}
