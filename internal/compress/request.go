package compress

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Lists that a request may hold.
const (
	messages = "messages"
	input    = "input"
)

// What is wrong with a request that is no request at all.
var (
	errNoObject = errors.New("the body must be one JSON object")
	errNoList   = errors.New("messages or input must be a list")
)

// asked is a request as it was read. Its strings are parts of the body.
type asked struct {
	name    string // of the list's member, by which it is returned
	list    string // the list, raw
	format  transcript.Format
	acts    bool                    // the list holds a call or a result
	members map[string]gjson.Result // those that are read, but for the list
	session string                  // that the request names itself
	why     string                  // why the engine is not asked; empty if it is
}

// known are the members that are read; the others are ignored.
var known = map[string]bool{
	messages: true, input: true, "model": true, "format": true, "session_id": true, "config": true,
	"tools": true, "system": true, "instructions": true, "metadata": true, "thinking": true, "thread": true,
	"prompt_cache_key": true, "prompt_cache_retention": true, "previous_response_id": true, "conversation": true,
}

// read reads the body of a request.
func read(body []byte) (*asked, error) {
	if !json.Valid(body) { // json, as gjson recurses as deep as the document does
		return nil, errNoObject
	}
	top := gjson.Parse(string(body))
	if !top.IsObject() {
		return nil, errNoObject
	}
	a := &asked{members: map[string]gjson.Result{}}
	top.ForEach(func(key, value gjson.Result) bool {
		if _, twice := a.members[key.Str]; twice { // the last one counts, as for most readers; who reads otherwise means another one
			a.why = RepeatedMember
		}
		if known[key.Str] {
			a.members[key.Str] = value
		}
		return true
	})
	if a.name = messages; !a.members[messages].IsArray() {
		a.name = input
	}
	list := a.members[a.name]
	if !list.IsArray() {
		return nil, errNoList
	}
	a.list = list.Raw
	a.session = cmp.Or(named(a.members["session_id"]), named(a.members["config"].Get("session_id")))
	a.shape(list)
	if m := a.members["model"]; a.why == "" && m.Str == "" {
		a.why = NoModel
	}
	return a, nil
}

// named is a session that a member names, "" for one that cannot be used.
func named(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	return identity.FromBody("", "", v.Str)
}

// formats are the wire formats whose messages come through this door, by their names. Where a breakpoint is an element of its own
// nothing says that all of the prompt counts as cached, so that Converse is none.
var formats = map[string]transcript.Format{
	transcript.Anthropic.String(): transcript.Anthropic,
	transcript.Chat.String():      transcript.Chat,
	transcript.Responses.String(): transcript.Responses,
}

// shape finds out which format the list has: the one that the request names, or that of its first call or result; without one, that
// of what stands beside the list or of a message of the system.
func (a *asked) shape(list gjson.Result) {
	told, system := transcript.UnknownFormat, false
	list.ForEach(func(_, item gjson.Result) bool {
		f, leads := actOf(item)
		told, system = f, system || leads
		return f == transcript.UnknownFormat
	})
	a.acts = told != transcript.UnknownFormat
	if f := a.members["format"]; f.Exists() && f.Type != gjson.Null {
		if a.format = formats[f.String()]; a.format == transcript.UnknownFormat && a.why == "" {
			a.why = UnknownFormat
		}
		return
	}
	switch a.format = told; {
	case a.name == input:
		a.format = transcript.Responses
	case told != transcript.UnknownFormat:
	case !system && (a.members["system"].Exists() || a.members["tools"].Get("0.input_schema").Exists()):
		a.format = transcript.Anthropic
	default:
		a.format = transcript.Chat
	}
}

// actOf is the format in which an element of a list makes or answers a call, UnknownFormat if it does neither. leads: the system
// speaks, which Chat alone has as a message.
func actOf(item gjson.Result) (f transcript.Format, leads bool) {
	item.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "role":
			leads = value.Str == "system" || value.Str == "developer"
			if value.Str == "tool" {
				f = transcript.Chat
			}
		case "tool_calls":
			if value.IsArray() && value.Get("0").Exists() {
				f = transcript.Chat
			}
		case "type":
			if isItem(value.Str) {
				f = transcript.Responses
			}
		case "content":
			if value.IsArray() && hasBlock(value) {
				f = transcript.Anthropic
			}
		}
		return f == transcript.UnknownFormat
	})
	return f, leads
}

// hasBlock reports whether content holds a call or a result of Anthropic's.
func hasBlock(content gjson.Result) (found bool) {
	content.ForEach(func(_, block gjson.Result) bool {
		if !block.IsObject() {
			return true
		}
		kind := block.Get("type").Str
		found = kind == "tool_use" || kind == "tool_result"
		return !found
	})
	return found
}
