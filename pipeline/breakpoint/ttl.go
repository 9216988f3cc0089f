package breakpoint

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// TTLGate says why a body's TTLs stay as the client asks.
type TTLGate uint8

// TTL gates.
const (
	FreeTTL        TTLGate = iota
	AutomaticTTL           // the provider places a marker itself, and all of a body must agree
	UnknownTTL             // a marker asks for something that is not known here, so no order of TTLs can be promised
	UnsupportedTTL         // the model is not known to take a ttl
)

// CanSetTTL reports whether the TTLs of a body's markers can be changed.
func CanSetTTL(ix *transcript.Index) TTLGate {
	switch {
	case ix.TopMarker:
		return AutomaticTTL
	case !takesTTL(ix):
		return UnsupportedTTL
	case slices.ContainsFunc(ix.Markers, func(m transcript.Marker) bool { return !known(ix, &m) }):
		return UnknownTTL
	}
	return FreeTTL
}

// known reports whether a marker is of today's one kind and asks for one of today's TTLs. The index reads null as five
// minutes, and what it does not know as one hour. A nested one outside of a tool result may be data.
func known(ix *transcript.Index, m *transcript.Marker) bool {
	if m.Nested && ix.Seq(m.Seq).Kind != transcript.ToolResult {
		return false
	}
	if m.TTL >= long && gjson.ParseBytes(m.TTLVal.Of(ix.Body)).Str != "1h" {
		return false
	}
	kind := gjson.GetBytes(m.Value.Of(ix.Body), "type")
	if ix.Format == transcript.Converse {
		return kind.Str == "default"
	}
	return !kind.Exists() || kind.Str == "ephemeral"
}

// setTTL gives every marker the TTL asked for. Either all that ask for less are raised, so that every one asks for an hour,
// or those that ask for more are lowered, so that none does: both keep the order of TTLs.
func setTTL(p *Plan, in *Input) {
	if in.TTL == 0 {
		return
	}
	if p.Fixed = CanSetTTL(in.Index); p.Fixed != FreeTTL {
		return
	}
	for i := range p.Marks {
		switch m := &p.Marks[i]; {
		case m.TTL < in.TTL:
			m.TTL = in.TTL
			p.Raised++
		case m.TTL > in.TTL && in.Lower:
			m.TTL = in.TTL
			p.Lowered++
		}
	}
}
