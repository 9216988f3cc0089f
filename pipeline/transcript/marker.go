package transcript

import "time"

const (
	markerType = iota
	markerTTL
)

func markerKey(name string) int {
	switch name {
	case "type":
		return markerType
	case "ttl":
		return markerTTL
	}
	return unknownKey
}

// marker reads the value of a cache_control. Null marks nothing, but is left out of digests like any other: some clients
// write it wherever no breakpoint stands.
func (p *parser) marker(key Span, depth int) (m Marker, ok bool, err error) {
	if len(p.ix.cuts) >= MaxBlocks {
		return m, false, p.fault("too many breakpoints")
	}
	lo := p.i
	if p.peek() == '{' {
		m, err = p.markerObject(depth)
		ok = err == nil
	} else if err := p.null(depth); err != nil {
		return m, false, err
	}
	m.Value = Span{uint32(lo), uint32(p.i)}
	m.Member = Span{key.Lo, m.Value.Hi}
	m.Cut = p.cut(m.Member)
	p.ix.cuts = append(p.ix.cuts, m.Cut)
	return m, ok, err
}

func (p *parser) markerObject(depth int) (m Marker, err error) {
	m.TTL = 5 * time.Minute
	var known seen
	err = p.object(depth, func(s *scanner, k Span) error {
		n, err := known.find(s, k, markerKey)
		if err != nil {
			return err
		}
		v, err := s.skip(depth + 1)
		if n == markerTTL && err == nil {
			m.TTLVal, m.TTL = v, s.ttl(v)
		}
		return err
	})
	return m, err
}

// ttl is how long a breakpoint asks for. What is no TTL of today counts as the longest one, which errs towards warm.
func (s *scanner) ttl(v Span) time.Duration {
	if s.word(v) == "5m" || string(v.Of(s.b)) == "null" {
		return 5 * time.Minute
	}
	return time.Hour
}

// nested reads a cache_control that stands inside a block.
func (p *parser) nested(key Span, depth int) error {
	m, ok, err := p.marker(key, depth)
	if ok {
		m.Nested = true
		p.ix.Markers = append(p.ix.Markers, m)
	}
	return err
}

const (
	deepCacheControl = iota
	deepBreakpoint
)

func deepKey(name string) int {
	switch name {
	case "cache_control":
		return deepCacheControl
	case "prompt_cache_breakpoint":
		return deepBreakpoint
	}
	return unknownKey
}

// breakpointOrData reads a prompt_cache_breakpoint: a breakpoint of OpenAI's, and data anywhere else.
func (p *parser) breakpointOrData(key Span, depth int) error {
	if c := p.peek(); p.ix.Format.Automatic() && (c == '{' || c == 'n') {
		return p.nested(key, depth)
	}
	return p.deep(depth)
}

// deep reads a value inside a block in which breakpoints may stand, as they do in documents and search results. A member
// named cache_control that is neither an object nor null is data.
func (p *parser) deep(depth int) error {
	switch p.peek() {
	case '{':
		var known seen
		return p.object(depth, func(s *scanner, key Span) error {
			n, err := known.find(s, key, deepKey)
			if err != nil {
				return err
			}
			switch c := s.peek(); {
			case n == deepCacheControl && (c == '{' || c == 'n'):
				return p.nested(key, depth+1)
			case n == deepBreakpoint:
				return p.breakpointOrData(key, depth+1)
			}
			return p.deep(depth + 1)
		})
	case '[':
		return p.array(depth, func(*scanner) error { return p.deep(depth + 1) })
	}
	_, err := p.skip(depth)
	return err
}

// cut widens a member by one adjoining comma: the one before it, or else the one after it; and by the white space between
// the two, so that what is left is what a client writes that sets no breakpoint there.
func (p *parser) cut(m Span) Span {
	lo := m.Lo
	for lo > 0 && isSpace(p.b[lo-1]) {
		lo--
	}
	if lo > 0 && p.b[lo-1] == ',' {
		return Span{lo - 1, m.Hi}
	}
	return p.cutBehind(m)
}

// cutBehind widens a member by the comma after it, if there is one.
func (p *parser) cutBehind(m Span) Span {
	after := scanner{b: p.b, i: int(m.Hi)}
	if after.peek() == ',' {
		after.i++
		after.space()
		return Span{m.Lo, uint32(after.i)}
	}
	return m
}
