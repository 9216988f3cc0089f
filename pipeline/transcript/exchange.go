package transcript

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Gap is a span of messages out of which whole exchanges are left. An exchange is a run of assistant messages with the
// results that answer it, up to the next assistant or human message.
type Gap struct {
	Head, Next int32  // last message before the span, and the first one behind it
	Dropped    []bool // by message
}

// Gap finds what may be left out between two messages. With keepHuman what a human said there stays, and so does what it
// answers, else two user messages would stand in a row; so does an exchange whose results came with a human's words. What loads
// a tool stays in any case, as do what gives an original back and messages that are neither the user's nor the assistant's. ok is false if nothing would be left
// out, or if what belongs together would be parted: a call and its result, also those of the provider's own tools.
func (ix *Index) Gap(head, next int32, keepHuman bool) (g Gap, ok bool) {
	g = Gap{Head: head, Next: next, Dropped: make([]bool, len(ix.Messages))}
	for m := head + 1; m < next; {
		end := m + 1
		for end < next && ix.continues(end) {
			end++
		}
		keep := keepHuman && end < next && ix.Human(end) && !ix.answers(end)
		for i := m; i < end; i++ {
			keep = keep || keepHuman && ix.Human(i) || ix.loads(i) || ix.restored(i)
		}
		for i := m; i < end; i++ {
			g.Dropped[i] = !keep && ix.Messages[i].Role != OtherRole
			ok = ok || g.Dropped[i]
		}
		m = end
	}
	return g, ok && ix.Whole(g.Dropped)
}

// Whole reports whether nothing that is left out belongs to anything that stays.
func (ix *Index) Whole(dropped []bool) bool {
	whole := true
	ix.Pairs(func(call, result int32) { whole = whole && dropped[call] == dropped[result] })
	return whole
}

// Pairs calls found with the messages of each call and its result: of tool calls, of the provider's own tools, and of calls that
// such a tool has made.
func (ix *Index) Pairs(found func(call, result int32)) {
	for i := range ix.Results {
		if r := &ix.Results[i]; r.Call >= 0 {
			found(ix.Calls[r.Call].Msg, r.Msg)
		}
	}
	var own map[string]int32 // messages of the provider's own calls
	ids := []string{"id", "tool_use_id", "caller.tool_id", "approval_request_id"}
	if ix.Format == Converse {
		ids = []string{"toolUse.toolUseId", "toolResult.toolUseId"}
	}
	for i := range ix.Blocks {
		b := &ix.Blocks[i]
		if b.Kind != Other && (own == nil || b.Kind != ToolUse) || ix.Messages[b.Msg].Role != Assistant && ix.Format != Responses {
			continue
		}
		members := gjson.GetManyBytes(b.Raw.Of(ix.Body), ids...)
		for _, ref := range members[1:] {
			if call, ok := own[ref.Str]; ok && ref.Str != "" {
				found(call, b.Msg)
			}
		}
		if id := members[0].Str; b.Kind == Other && id != "" {
			if own == nil {
				own = map[string]int32{}
			}
			own[id] = b.Msg
		}
	}
}

// loads reports whether a message holds a result that loads tools (tool_reference): what calls them needs it.
func (ix *Index) loads(m int32) bool {
	for i := ix.Messages[m].First; i < ix.Messages[m].Last; i++ {
		if r := ix.Blocks[i].Result; r >= 0 && (ix.Results[r].Form == MixedForm &&
			bytes.Contains(ix.Results[r].Content.Of(ix.Body), []byte(`"tool_reference"`)) ||
			ix.Format == Responses && ix.Results[r].Form == NoContent && gjson.GetBytes(ix.Blocks[i].Raw.Of(ix.Body), "type").Str == "tool_search_output") {
			return true
		}
	}
	return false
}

// restored reports whether a message holds an original that was given back.
func (ix *Index) restored(m int32) bool {
	for i := ix.Messages[m].First; i < ix.Messages[m].Last; i++ {
		if r := ix.Blocks[i].Result; r >= 0 && ix.Results[r].Call >= 0 && ix.Restores(ix.Results[r].Call) {
			return true
		}
	}
	return false
}

// continues reports whether a message belongs to the exchange of the one before it.
func (ix *Index) continues(m int32) bool {
	was, is := &ix.Messages[m-1], &ix.Messages[m]
	if is.Role == Assistant {
		return was.Role == Assistant
	}
	return is.Role == User && ix.answers(m) && (was.Role == Assistant || was.Role == User && ix.answers(m-1))
}

// answers reports whether a message holds a result.
func (ix *Index) answers(m int32) bool {
	for b := ix.Messages[m].First; b < ix.Messages[m].Last; b++ {
		if ix.Blocks[b].Result >= 0 {
			return true
		}
	}
	return false
}

// FirstHuman is the number of the first message in which a human speaks, -1 without one. Messages in which a client speaks of its
// own accord stand before it, or are the first if nobody else speaks.
func (ix *Index) FirstHuman() int32 {
	first := int32(-1)
	for m := range int32(len(ix.Messages)) {
		if ix.Human(m) && ix.said(m) {
			return m
		}
		if first < 0 && ix.Human(m) {
			first = m
		}
	}
	return first
}

// said reports whether a message holds anything but reminders of the client.
func (ix *Index) said(m int32) bool {
	msg := &ix.Messages[m]
	return slices.ContainsFunc(ix.Blocks[msg.First:msg.Last], func(b Block) bool { return b.Kind != Text || !IsReminder(ix.BlockText(&b)) })
}

// reminders open texts that clients add of their own accord: Claude Code's, and what Codex says of its surroundings.
var reminders = []string{"<system-reminder>", "<environment_context>", "<user_instructions>", "<turn_aborted>"}

// Human reports whether a human speaks in a message: it is the user's, and besides results it holds anything but reminders
// of the client.
func (ix *Index) Human(m int32) bool {
	msg := &ix.Messages[m]
	if msg.Role != User {
		return false
	}
	if !ix.answers(m) {
		return true
	}
	for i := msg.First; i < msg.Last; i++ {
		b := &ix.Blocks[i]
		if b.Result < 0 && (b.Kind != Text || !IsReminder(ix.BlockText(b))) {
			return true
		}
	}
	return false
}

// IsReminder reports whether a text was added by the client of its own accord.
func IsReminder(text string) bool {
	text = strings.TrimLeft(text, " \n\t")
	return slices.ContainsFunc(reminders, func(r string) bool { return strings.HasPrefix(text, r) })
}

// BlockText is the text of a text block; it may alias the body.
func (ix *Index) BlockText(b *Block) string {
	if b.Text.Len() < 2 {
		return ""
	}
	return ix.str(b.Text)
}

// Opens reports whether a message begins an exchange that makes a call, and is therefore unlike any other.
func (ix *Index) Opens(m int32) bool {
	msg := &ix.Messages[m]
	if msg.Role != Assistant || m == 0 || ix.Messages[m-1].Role == Assistant {
		return false
	}
	for i := msg.First; i < msg.Last; i++ {
		if ix.Blocks[i].Kind == ToolUse {
			return true
		}
	}
	return false
}

// Compacted reports whether the provider itself has put a summary in the place of what stands before it.
func (ix *Index) Compacted() bool {
	for i := range ix.Blocks {
		b := &ix.Blocks[i]
		if b.Kind == Other && ix.Messages[b.Msg].Role == Assistant && gjson.GetBytes(b.Raw.Of(ix.Body), "type").Str == "compaction" {
			return true
		}
	}
	return false
}

// maxOpaque is what an image or a document counts, in tokens, whatever its bytes.
const maxOpaque = 1600

// EstMessage is Est of a message: of its texts and calls as they are written in JSON, and of its results. Thinking counts nothing:
// it is no part of what a message is known by, as clients and providers leave it out of older turns.
func (ix *Index) EstMessage(m int32) (n int) {
	msg := &ix.Messages[m]
	for i := msg.First; i < msg.Last; i++ {
		b := &ix.Blocks[i]
		switch {
		case b.Kind == Text:
			n += Est(view(b.Text.Of(ix.Body)))
		case b.Kind == Thinking:
		case b.Kind == ToolUse && b.Call >= 0:
			c := &ix.Calls[b.Call]
			n += Est(view(c.Name.Of(ix.Body))) + Est(ix.InputText(c))
		case b.Result >= 0 && ix.Results[b.Result].Form != MixedForm:
			n += ix.ResultTokens(b.Result)
		default:
			n += min(b.Raw.Len()/2, maxOpaque)
		}
	}
	return n
}
