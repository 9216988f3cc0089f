package transcript

import (
	"cmp"
	"slices"

	"github.com/minio/highwayhash"
)

// Hasher makes keyed digests. The key is secret, so nobody can choose content that collides.
type Hasher struct {
	raw   [32]byte
	plain [32]byte
}

// NewHasher derives a hasher from a secret of at least 32 bytes.
func NewHasher(secret []byte) *Hasher {
	h := &Hasher{}
	copy(h.raw[:], secret)
	a := highwayhash.Sum128(append([]byte("tidemark raw 1 "), secret...), h.raw[:])
	b := highwayhash.Sum128(append([]byte("tidemark raw 2 "), secret...), h.raw[:])
	c := highwayhash.Sum128(append([]byte("tidemark plain 1 "), secret...), h.raw[:])
	d := highwayhash.Sum128(append([]byte("tidemark plain 2 "), secret...), h.raw[:])
	copy(h.plain[:], append(c[:], d[:]...))
	copy(h.raw[:], append(a[:], b[:]...))
	return h
}

// Sum is the digest of any bytes.
func (h *Hasher) Sum(b []byte) Digest { return highwayhash.Sum128(b, h.raw[:]) }

// Plain is the digest of a text block that has no members but its text: of the string literal.
func (h *Hasher) Plain(literal []byte) Digest { return highwayhash.Sum128(literal, h.plain[:]) }

// Step extends a prefix id by one block of the outbound. Messages have no part in it: providers join neighbours of one role.
func (h *Hasher) Step(prefix Digest, area byte, block Digest) Digest {
	var b [33]byte
	copy(b[:], prefix[:])
	copy(b[16:], block[:])
	b[32] = area
	return highwayhash.Sum128(b[:], h.raw[:])
}

// Area is the byte that tells tools, system and the roles of messages apart in a prefix id.
func (ix *Index) Area(b *Block) byte {
	if b.Msg < 0 {
		return byte(16 - b.Msg)
	}
	return byte(ix.Messages[b.Msg].Role)
}

// Digest hashes every block, message and the key.
//
// A block's digest leaves out every cache_control in it, with one adjoining comma. A plain text block hashes by its text
// alone, so string content equals a list of one text block: clients change the form to place a marker.
//
// What comes from a memo has its digests already.
func (ix *Index) Digest(h *Hasher) {
	tools, system := ix.Head[:len(ix.tools)], ix.Head[len(ix.tools):]
	for _, area := range [][]Block{tools[ix.known.tools:], system[ix.known.system:], ix.Blocks[ix.known.blocks:]} {
		for i := range area {
			ix.digestBlock(h, &area[i])
		}
	}
	buf := ix.scratch[:0]
	buf = append(buf, ix.Model...)
	for i := range ix.Head {
		if b := &ix.Head[i]; b.Counts() {
			buf = append(append(buf, ix.Area(b)), b.Hash[:]...)
		}
	}
	ix.Key = h.Sum(buf)
	ix.Parts = ix.parts(h, buf)
	for i := ix.known.messages; i < len(ix.Messages); i++ {
		m := &ix.Messages[i]
		buf = ix.appendMessage(buf[:0], m)
		for j := m.First; j < m.Last; j++ {
			if b := &ix.Blocks[j]; b.Counts() {
				buf = append(buf, b.Hash[:]...)
			}
		}
		m.Hash = h.Sum(buf)
	}
	ix.scratch = buf[:0]
}

// parts are the digests of what the key is made of. buf holds the key's bytes: the model, then 17 bytes for each block.
func (ix *Index) parts(h *Hasher, buf []byte) Parts {
	model, blocks := buf[:len(ix.Model)], buf[len(ix.Model):]
	tools := 0
	for i := range ix.tools {
		if ix.Head[i].Counts() {
			tools += 17
		}
	}
	return Parts{Model: h.Sum(model), Tools: h.Sum(blocks[:tools]), System: h.Sum(blocks[tools:])}
}

func (ix *Index) digestBlock(h *Hasher, b *Block) {
	if b.Plain {
		b.Hash = h.Plain(b.Text.Of(ix.Body))
		return
	}
	cuts := ix.cutsIn(b.Raw)
	if len(cuts) == 0 {
		b.Hash = h.Sum(b.Raw.Of(ix.Body))
		return
	}
	buf := ix.appendWithout(ix.scratch[:0], b.Raw, cuts)
	b.Hash = h.Sum(buf)
	ix.scratch = buf[:0]
}

// cutsIn returns the part of cuts that lies in a span of whole members.
func (ix *Index) cutsIn(s Span) []Span {
	if len(ix.cuts) == 0 {
		return nil
	}
	byLo := func(c Span, at uint32) int { return cmp.Compare(c.Lo, at) }
	lo, _ := slices.BinarySearchFunc(ix.cuts, s.Lo, byLo)
	n, _ := slices.BinarySearchFunc(ix.cuts[lo:], s.Hi, byLo)
	return ix.cuts[lo : lo+n]
}

// appendWithout appends the bytes of a span with the cuts left out.
func (ix *Index) appendWithout(buf []byte, s Span, cuts []Span) []byte {
	at := s.Lo
	for _, c := range cuts {
		buf = append(buf, ix.Body[at:c.Lo]...)
		at = c.Hi
	}
	return append(buf, ix.Body[at:s.Hi]...)
}

// Replaced is the digest of a result's block as it is forwarded when content, a JSON value, stands in the place of its
// content. It equals the digest of the same bytes sent by a client. A result without content stays as it is.
func (ix *Index) Replaced(h *Hasher, r *Result, content []byte) Digest {
	raw := ix.Blocks[r.Block].Raw
	head, tail := Span{raw.Lo, r.Content.Lo}, Span{r.Content.Hi, raw.Hi}
	if r.Content.Len() == 0 {
		head, tail, content = raw, Span{}, nil
	}
	buf := make([]byte, 0, raw.Len()-r.Content.Len()+len(content))
	buf = append(ix.appendWithout(buf, head, ix.cutsIn(head)), content...)
	return h.Sum(ix.appendWithout(buf, tail, ix.cutsIn(tail)))
}

// appendMessage appends what a message holds besides the digests of its blocks: its role, the exact role where it is not
// one of the two, and the bytes around its content if it has other members. Role and content are the only members that
// clients send today.
func (ix *Index) appendMessage(buf []byte, m *Message) []byte {
	buf = append(buf, byte(m.Role))
	if m.Role == OtherRole {
		buf = append(buf, m.role.Of(ix.Body)...)
	}
	if !m.Extra {
		return buf
	}
	buf = append(buf, ix.Body[m.Raw.Lo:m.Content.Lo]...)
	return append(buf, ix.Body[m.Content.Hi:m.Raw.Hi]...)
}
