package replay

import (
	"bytes"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// Reuse says how much of what was removed the recorded conversation used again later. The model of the recording saw
// everything, so this says what it would have missed, not what it would have done.
type Reuse struct {
	Removed    int     `json:"removed"`       // results
	Tokens     int     `json:"tokens"`        // of them, estimated
	Reread     int     `json:"reread"`        // results whose file was read again after the removal
	Referenced int     `json:"referenced"`    // results that had introduced an identifier that the model used after the removal, when it stood nowhere else in what was forwarded
	Again      int     `json:"again"`         // results with either
	Penalty    float64 `json:"penalty_units"` // if each reference had cost one call more that brings the result back
}

func (r *Reuse) join(o *Reuse) {
	r.Removed += o.Removed
	r.Tokens += o.Tokens
	r.Reread += o.Reread
	r.Referenced += o.Referenced
	r.Again += o.Again
	r.Penalty += o.Penalty
}

// extraCall is the price of a call's output in units: 150 tokens at five times the price of input.
const extraCall = 750

// reuse follows the removals of one policy through a session.
type reuse struct {
	story  *story
	result Reuse
	gone   map[string]*removal // by call
	sent   map[string][]byte   // by conversation: what was forwarded last
	words  map[string][]byte   // and the same, legible
	missed []*removal          // referenced for the first time since a request was billed
}

// removal is one removed result.
type removal struct {
	tokens             int
	reread, referenced bool
}

func newReuse(s *story) *reuse {
	return &reuse{story: s, gone: map[string]*removal{}, sent: map[string][]byte{}, words: map[string][]byte{}}
}

// turn looks at what the model said since the conversation's last request, and then takes note of what this one removes.
func (u *reuse) turn(n int, q *Request, o *pipeline.Outcome, after []byte) {
	said := u.story.said[n]
	for call, r := range u.gone {
		before := r.reread || r.referenced
		if path := u.story.path[call]; !r.reread && path != "" && said.reads[path] {
			r.reread = true
			u.result.Reread++
		}
		if !r.referenced && u.references(call, &said, u.words[q.Lineage]) {
			r.referenced = true
			u.result.Referenced++
			u.missed = append(u.missed, r)
		}
		if !before && (r.reread || r.referenced) {
			u.result.Again++
		}
	}
	for _, d := range o.New {
		switch {
		case d.Hold:
		case d.Drop:
			u.result.Tokens += d.Tokens
			for _, call := range d.Calls {
				u.remove(call, d.Tokens/len(d.Calls))
			}
		default:
			u.result.Tokens += d.Tokens
			u.remove(d.Call, d.Tokens)
		}
	}
	u.sent[q.Lineage], u.words[q.Lineage] = after, legible(after, q.wire.Format)
}

// remove notes a result that is not sent any more. Of a cut each has its share of the tokens.
func (u *reuse) remove(call string, tokens int) {
	if u.gone[call] == nil {
		u.gone[call] = &removal{tokens: tokens}
		u.result.Removed++
	}
}

// references reports whether something was used that only the result had introduced.
func (u *reuse) references(call string, said *saying, sent []byte) bool {
	for _, id := range u.story.introduced[call] {
		if said.used[id] && !stands(sent, id) {
			return true
		}
	}
	return false
}

// stands reports whether raw JSON holds a name as a word or as a part of a path, rather than within a longer word.
func stands(raw []byte, name string) bool {
	for at := 0; ; at++ {
		i := bytes.Index(raw[at:], []byte(name))
		if i < 0 {
			return false
		}
		at += i
		end := at + len(name)
		if (end == len(raw) || !inWord(raw[end])) && (at == 0 || !inWord(raw[at-1]) || escaped(raw[:at])) {
			return true
		}
	}
}

func inWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// escaped reports whether raw JSON ends with an escape of one letter, such as \n. A backslash that is itself escaped begins none.
func escaped(raw []byte) bool {
	before := raw[:len(raw)-1]
	return (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 1
}

// paid charges the results that were missed up to this request, the first one billed since: a call that reads the whole prompt
// and writes the result.
func (u *reuse) paid(t tariff, usage *pipeline.Usage) {
	read, write := t.tokens(usage)
	for _, r := range u.missed {
		u.result.Penalty += read*float64(usage.Prompt()) + write*float64(r.tokens) + extraCall
	}
	u.missed = u.missed[:0]
}
