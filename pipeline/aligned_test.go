package pipeline_test

import (
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// align finds which blocks of the client's body those of the outbound stand for, and returns the messages that are missing. What
// is missing must be nothing that a human said, nothing of the last turns when it is cut, and one block may have come in.
func (w *world) align(in, out []byte, s *sent, cut bool) (missing []string) {
	a, errA := transcript.Parse(in, transcript.Anthropic)
	b, errB := transcript.Parse(out, transcript.Anthropic)
	if errA != nil || errB != nil {
		return nil // said elsewhere
	}
	defer a.Release()
	defer b.Release()
	a.Digest(w.hasher)
	b.Digest(w.hasher)
	for n := range len(b.Head) {
		s.of = append(s.of, n)
	}
	raws, m, stubs, stub, behind, end := messagesOf(in), 0, 0, -1, 0, 0
	var pinned []string
	said := ""
	drop := func() {
		pinned = append(pinned, w.pinnedIn(raws[m])...)
		if msg := &a.Messages[m]; w.pins == "" && humans(raws[m]) || cut && msg.Turn > a.LastTurn()-int32(w.keepRecent) || m == 0 {
			w.violate("cut", "message %d is missing: %.200s", m, raws[m])
		}
		missing = append(missing, raws[m])
		m++
	}
	for i := range b.Messages {
		extra, ok := 0, false
		for ; m < len(a.Messages) && !ok; m++ {
			if extra, ok = stands(a, b, &a.Messages[m], &b.Messages[i]); !ok {
				drop()
				m--
			}
		}
		if !ok {
			w.violate("cut", "message %d of the outbound is none of the client's", i)
			return missing
		}
		stubs += extra
		msg := &a.Messages[m-1]
		if extra > 0 {
			stub = len(s.of) + int(msg.Last-msg.First)
			said = b.BlockText(&b.Blocks[b.Messages[i].Last-1])
		}
		if len(missing) > behind && a.Opens(int32(m-1)) { // the first call behind the span stands for its end
			behind, end = len(missing), int(a.SeqOf(msg.First))
		}
		for n := range b.Messages[i].Last - b.Messages[i].First {
			s.of = append(s.of, int(a.SeqOf(min(msg.First+n, msg.Last-1))))
		}
	}
	for m < len(a.Messages) {
		drop()
	}
	w.pinned += len(pinned)
	for _, text := range pinned {
		if cut && !strings.Contains(said, text) {
			w.violate("pin", "%.100q is pinned and not in %.300q", text, said)
		}
	}
	if stub >= 0 {
		s.of[stub] = end // it stands as long as that does
	}
	if stubs > 1 || stubs != b2i(len(missing) > 0) {
		w.violate("cut", "%d stubs for %d missing messages", stubs, len(missing))
	}
	return missing
}

// stands reports whether a message of the outbound stands for one of the body, and the blocks that it has more.
func stands(a, b *transcript.Index, x, y *transcript.Message) (extra int, ok bool) {
	n, now := x.Last-x.First, y.Last-y.First
	if x.Role != y.Role || now != n && now != n+1 {
		return 0, false
	}
	for i := range n {
		p, q := &a.Blocks[x.First+i], &b.Blocks[y.First+i]
		same := p.Hash == q.Hash
		if p.Result >= 0 && q.Result >= 0 {
			same = a.CallID(&a.Results[p.Result]) == b.CallID(&b.Results[q.Result])
		}
		if !same {
			return 0, false
		}
	}
	return int(now - n), true
}

// pinnedIn are the texts of a message of which a line starts with the pin.
func (w *world) pinnedIn(raw string) (pinned []string) {
	if w.pins == "" || !humans(raw) {
		return nil
	}
	for _, b := range gjson.Get(raw, "content").Array() {
		if text := b.Get("text").Str; strings.HasPrefix(text, w.pins) || strings.Contains(text, "\n"+w.pins) {
			pinned = append(pinned, text)
		}
	}
	return pinned
}

// humans reports whether a human speaks in a message: it is the user's and has no results, or more than results.
func humans(raw string) bool {
	if gjson.Get(raw, "role").Str != "user" {
		return false
	}
	content := gjson.Get(raw, "content")
	if content.Type == gjson.String {
		return true
	}
	results, more := 0, 0
	for _, b := range content.Array() {
		switch {
		case b.Get("type").Str == "tool_result":
			results++
		case !transcript.IsReminder(b.Get("text").Str):
			more++
		}
	}
	return results == 0 || more > 0
}

var handleOf = regexp.MustCompile(`\[tidemark cut: [^\]]* id ([0-9a-f]{24})\]`)

// spanSaved checks that what a cut leaves out can be had again by the handles of its stub. What the client changed in the span of
// an earlier cut stands there as it was.
func (w *world) spanSaved(out []byte, missing []string) {
	saved, handles := map[string]bool{}, handleOf.FindAllSubmatch(out, -1)
	for _, id := range handles {
		o, err := w.store.Original(w.ctx, string(id[1]))
		if err != nil {
			w.violate("unrecoverable", "span: %v", err)
			return
		}
		for _, m := range gjson.ParseBytes(o.Content).Array() {
			saved[markerOf.ReplaceAllString(m.Raw, "")] = true
		}
	}
	for _, m := range missing {
		if !saved[m] && len(handles) < 2 {
			w.violate("unrecoverable", "nothing keeps %.200s", m)
		}
	}
}
