package routeconfig

import (
	"errors"
	"strings"
)

// Problem is one thing that is wrong with a config.
type Problem struct {
	Path     []string // keys from the top; an element of a list is [n]
	Text     string   // what is wrong
	Accepted []string // what would be accepted, where that is a list
	Unknown  bool     // it refers to a named pipeline that this server does not have
}

// Place is the path in dotted form: components.readlifecycle.min_tokens, pipeline[2].
func (p *Problem) Place() string {
	var b strings.Builder
	for i, k := range p.Path {
		if i > 0 && !strings.HasPrefix(k, "[") {
			b.WriteByte('.')
		}
		b.WriteString(k)
	}
	return b.String()
}

// String is the problem on one line: its place, what is wrong, what is accepted.
func (p *Problem) String() string {
	s := p.Text
	if place := p.Place(); place != "" {
		s = place + ": " + s
	}
	if len(p.Accepted) > 0 {
		s += "; accepted: " + strings.Join(p.Accepted, ", ")
	}
	return s
}

// Problems are all things that are wrong with a config, in a fixed order.
type Problems []*Problem

// Err is nil if nothing is wrong.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.String()
	}
	return errors.New(strings.Join(texts, " | "))
}

// Under returns the problems as seen from further up.
func (ps Problems) Under(path ...string) Problems {
	out := make(Problems, len(ps))
	for i, p := range ps {
		q := *p
		q.Path = append(append([]string(nil), path...), p.Path...)
		out[i] = &q
	}
	return out
}

// unique keeps the first problem of each place.
func (ps Problems) unique() (out Problems) {
	seen := map[string]bool{}
	for _, p := range ps {
		if at := p.Place(); at == "" || !seen[at] {
			seen[at] = true
			out = append(out, p)
		}
	}
	return out
}
