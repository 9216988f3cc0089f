package transcript

import (
	"slices"
	"sort"
	"unsafe"
)

// A body of an agent begins with nearly all of the one before it. A memo keeps what was read there, so that only what is
// new is read and hashed. It is never trusted by its place alone: the bytes that it stands for must have the same keyed
// digest, and then what is read on from it is, in every field, what reading the whole body gives.

// memoTail is among how many of the last messages clients move their breakpoints.
const memoTail = 8

// Memo is what was read of a body before one of its messages. It holds no bytes of the body but the model and the user id,
// and may be used by several readers at once.
type Memo struct {
	at    uint32 // where the body is read on: the start of a message
	seals []seal // of the bytes before
	ix    Index  // lists and fields as they were at that place
	parts int32
}

// seal is the digest of the bytes from the seal before to its end. A memo that grows out of another one adds one seal for
// what is new instead of hashing all again.
type seal struct {
	end uint32
	sum Digest
}

// maxSeals bounds how finely a body is sealed.
const maxSeals = 64

// preface is what was known of the body when its messages began.
type preface struct {
	known seen
	Top
}

// known counts what came from a memo, with digests.
type known struct{ tools, system, blocks, messages int }

// opened notes what is known when the messages begin.
func (p *parser) opened() { p.ix.open = preface{p.known, p.ix.Top} }

// Memo keeps what was read of the body, up to the last messages, in which breakpoints move; nil if there is nothing before
// them or far too much. The index must have its digests, made with the same hasher.
func (ix *Index) Memo(h *Hasher) *Memo {
	n := ix.settled()
	if n == 0 || ix.large() || ix.Delta {
		return nil
	}
	at := ix.Messages[n]
	before := func(length int, place func(int) uint32) int {
		return sort.Search(length, func(i int) bool { return place(i) >= at.Raw.Lo })
	}
	m := &Memo{at: at.Raw.Lo, seals: ix.sealed(h, at.Raw.Lo), parts: at.parts}
	o := ix.open
	o.Top = o.clone()
	head := ix.Head[:len(ix.tools)]
	tools := before(len(head), func(i int) uint32 { return head[i].Raw.Lo })
	system, late := ix.Head[len(ix.tools):], 0
	if len(system) > 0 && system[0].Raw.Lo >= at.Raw.Lo { // instructions that stand behind the messages
		late = ix.first[1] - ix.first[0]
		system = system[min(late, len(system)):]
	}
	system = system[:before(len(system), func(i int) uint32 { return system[i].Raw.Lo })]
	blocks := int(at.First)
	calls := before(len(ix.Calls), func(i int) uint32 { return ix.Blocks[ix.Calls[i].Block].Raw.Lo })
	results := before(len(ix.Results), func(i int) uint32 { return ix.Blocks[ix.Results[i].Block].Raw.Lo })
	texts := before(len(ix.Texts), func(i int) uint32 { return ix.Texts[i].Lo })
	cuts := before(len(ix.cuts), func(i int) uint32 { return ix.cuts[i].Lo })
	m.ix = Index{
		Format:   ix.Format,
		open:     o,
		tools:    slices.Clone(ix.Head[:tools]),
		system:   slices.Clone(system),
		Blocks:   slices.Clone(ix.Blocks[:blocks]),
		Messages: slices.Clone(ix.Messages[:n]),
		Calls:    slices.Clone(ix.Calls[:calls]),
		Results:  slices.Clone(ix.Results[:results]),
		Texts:    slices.Clone(ix.Texts[:texts]),
		cuts:     slices.Clone(ix.cuts[:cuts]),
	}
	for _, mk := range ix.Markers {
		if mk.Member.Lo >= at.Raw.Lo {
			continue
		}
		switch { // as it was before the markers were numbered
		case mk.area >= 0:
			mk.Seq -= int32(len(ix.Head))
		case mk.area == InSystem:
			mk.Seq -= int32(len(ix.tools) + late)
		}
		m.ix.Markers = append(m.ix.Markers, mk)
	}
	return m
}

// sealed is the seals of the body's bytes up to a place.
func (ix *Index) sealed(h *Hasher, end uint32) []seal {
	var seals []seal
	at := uint32(0)
	if ix.from != nil && ix.from.at <= end && len(ix.from.seals) < maxSeals {
		at, seals = ix.from.at, slices.Clip(ix.from.seals)
	}
	if at < end {
		seals = append(seals, seal{end, h.Sum(ix.Body[at:end])})
	}
	return seals
}

// fits reports whether a body begins with the bytes that the memo stands for.
func (m *Memo) fits(body []byte, h *Hasher) bool {
	if len(body) < int(m.at) {
		return false
	}
	at := uint32(0)
	for _, s := range m.seals {
		if h.Sum(body[at:s.end]) != s.sum {
			return false
		}
		at = s.end
	}
	return true
}

// settled is the number of messages that the next body will likely repeat byte for byte.
func (ix *Index) settled() int32 {
	n := int32(len(ix.Messages)) - 1
	from := ix.Messages[max(n-memoTail, 0)].Raw.Lo
	i := sort.Search(len(ix.cuts), func(i int) bool { return ix.cuts[i].Lo >= from })
	for ; i < len(ix.cuts); i++ {
		c := ix.cuts[i].Lo
		if m := int32(sort.Search(len(ix.Messages), func(m int) bool { return ix.Messages[m].Raw.Hi > c })); m < n && ix.Messages[m].Raw.Lo < c {
			n = m
		}
	}
	return n
}

// Size is about how many bytes the memo holds.
func (m *Memo) Size() int {
	ix := &m.ix
	return ix.open.size() + sized(m.seals) + sized(ix.tools) + sized(ix.system) + sized(ix.Blocks) + sized(ix.Messages) + sized(ix.Calls) + sized(ix.Results) +
		sized(ix.Texts) + sized(ix.Markers) + sized(ix.cuts)
}

func sized[T any](list []T) int {
	var one T
	return cap(list) * int(unsafe.Sizeof(one))
}

// ParseOn is Parse, and reads on from the memo if the body begins with the bytes that the memo stands for. known reports
// whether it does. The hasher is the one that the memo was made with.
func ParseOn(body []byte, format Format, m *Memo, h *Hasher) (ix *Index, known bool, err error) {
	known = m != nil && m.ix.Format == format && m.fits(body, h)
	if !known {
		m = nil
	}
	ix, err = read(body, format, m)
	return ix, known, err
}

// restore sets the parser to where the memo ends.
func (m *Memo) restore(p *parser) {
	ix, o := p.ix, &m.ix.open
	p.i, p.parts, p.known = int(m.at), m.parts, o.known
	ix.open, ix.from = *o, m
	ix.Top = o.Top
	ix.tools, ix.system = append(ix.tools, m.ix.tools...), append(ix.system, m.ix.system...)
	ix.Blocks, ix.Messages = append(ix.Blocks, m.ix.Blocks...), append(ix.Messages, m.ix.Messages...)
	ix.Calls, ix.Results = append(ix.Calls, m.ix.Calls...), append(ix.Results, m.ix.Results...)
	ix.Texts, ix.cuts = append(ix.Texts, m.ix.Texts...), append(ix.cuts, m.ix.cuts...)
	ix.Markers = append(ix.Markers, m.ix.Markers...)
	ix.known = known{len(ix.tools), len(ix.system), len(ix.Blocks), len(ix.Messages)}
	for i := range ix.Calls {
		ix.Calls[i].answer = -1
	}
	for i := range ix.Results {
		r := &ix.Results[i]
		r.Call, r.Turn, r.Ambiguous = -1, 0, false
		if r.own.Len() > 0 { // a later call may have this id
			r.CallID, r.own = r.own, Span{}
		}
	}
}
