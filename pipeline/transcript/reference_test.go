package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// node is a value of a body as encoding/json reads it, with the bytes that it came from.
type node struct {
	at      Span
	kind    byte // first byte of the value; 0 of an absent one
	text    string
	members []member
	items   []*node
}

type member struct {
	key   string
	at    uint32 // where the key begins
	value *node
}

// treeOf decodes a body with encoding/json.
func treeOf(t rapid.TB, body []byte) *node {
	t.Helper()
	if !json.Valid(body) {
		t.Fatalf("invalid JSON: %q", clip(body))
	}
	d := &decoder{t: t, d: json.NewDecoder(bytes.NewReader(body)), body: body}
	d.d.UseNumber()
	return d.value()
}

func clip(b []byte) []byte { return b[:min(len(b), 2000)] }

type decoder struct {
	t    rapid.TB
	d    *json.Decoder
	body []byte
}

func (d *decoder) token() (json.Token, Span) {
	lo := int(d.d.InputOffset())
	tok, err := d.d.Token()
	if err != nil {
		d.t.Fatal(err)
	}
	for strings.IndexByte(" \t\r\n,:", d.body[lo]) >= 0 {
		lo++
	}
	return tok, Span{uint32(lo), uint32(d.d.InputOffset())}
}

func (d *decoder) value() *node {
	tok, at := d.token()
	n := &node{at: at, kind: d.body[at.Lo]}
	switch n.kind {
	case '{':
		for d.d.More() {
			key, at := d.token()
			n.members = append(n.members, member{key.(string), at.Lo, d.value()})
		}
	case '[':
		for d.d.More() {
			n.items = append(n.items, d.value())
		}
	case '"':
		n.text = tok.(string)
		return n
	default:
		return n
	}
	_, end := d.token()
	n.at.Hi = end.Hi
	return n
}

var absent = &node{}

func (n *node) get(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return absent
}

// is reports whether the node is this string.
func (n *node) is(text string) bool { return n.kind == '"' && n.text == text }

// reference builds the index that Parse must build of a body that it accepts, from what encoding/json says of it.
type reference struct {
	body []byte
	want *Index
}

func referenceOf(t rapid.TB, body []byte) *Index {
	t.Helper()
	root := treeOf(t, body)
	r := &reference{body: body, want: &Index{Body: body, Format: Anthropic, Top: Top{MaxTokens: -1}}}
	ix := r.want
	ix.Model = root.get("model").text
	if f, err := strconv.ParseFloat(string(root.get("max_tokens").at.Of(body)), 64); err == nil && f == float64(int64(f)) {
		ix.MaxTokens = int64(f)
	}
	ix.UserID = root.get("metadata").get("user_id").text
	ix.DropBlock = root.get("thinking").get("block_binding").get("prefix_mismatch_behavior").is("drop_block")
	ix.Delta = root.get("thread").kind == '{'
	ix.Diagnostics = root.get("diagnostics") != absent
	version := root.get("anthropic_version")
	ix.Versioned, ix.Bedrock = version != absent, strings.HasPrefix(version.text, "bedrock-")
	ix.End = root.at.Hi - 1
	if c := root.get("cache_control"); c.kind == '{' {
		ix.TopMarker, ix.TopTTL = true, ttlOf(c)
	}
	for i, b := range root.get("tools").items {
		r.tool(b, int32(i))
	}
	ix.HasTools = len(ix.Head) > 0
	for _, b := range r.list(root.get("system")) {
		r.block(&ix.Head, b, InSystem)
	}
	for i, m := range root.get("messages").items {
		r.message(m, int32(i))
	}
	r.join()
	return ix
}

func ttlOf(c *node) time.Duration {
	if ttl := c.get("ttl"); ttl.kind == 0 || ttl.kind == 'n' || ttl.is("5m") {
		return 5 * time.Minute
	}
	return time.Hour
}

// list is content or a system: a list, or a string that stands for one block.
func (r *reference) list(n *node) []*node {
	if n.kind == '"' {
		return []*node{n}
	}
	return n.items
}

func (r *reference) tool(n *node, seq int32) {
	b := Block{Raw: n.at, Msg: InTools, Kind: Tool, Marker: -1, Call: -1, Result: -1}
	b.null, b.Deferred = n.get("cache_control").kind == 'n', n.get("defer_loading").kind == 't'
	r.marker(n, seq, &b.Marker)
	r.want.Head = append(r.want.Head, b)
}

// marker notes the cache_control of an object; mine is where the block's own goes, nil for one inside a block.
func (r *reference) marker(n *node, seq int32, mine *int32) {
	i := slices.IndexFunc(n.members, func(m member) bool { return m.key == "cache_control" })
	if i < 0 || n.members[i].value.kind != '{' {
		return
	}
	m := n.members[i]
	got := Marker{Member: Span{m.at, m.value.at.Hi}, Value: m.value.at, Seq: seq, TTL: ttlOf(m.value), Nested: mine == nil}
	got.TTLVal = m.value.get("ttl").at
	switch got.Cut = got.Member; {
	case i > 0:
		before := n.members[i-1].value.at.Hi
		got.Cut.Lo = before + uint32(bytes.IndexByte(r.body[before:], ','))
	case len(n.members) > 1:
		got.Cut.Hi = n.members[1].at
	}
	if mine != nil {
		*mine = int32(len(r.want.Markers))
	}
	r.want.Markers = append(r.want.Markers, got)
}

func (r *reference) block(into *[]Block, n *node, msg int32) {
	ix, num := r.want, int32(len(*into))
	seq := num
	if msg >= 0 {
		seq += int32(len(ix.Head))
	}
	b := Block{Raw: n.at, Msg: msg, Marker: -1, Call: -1, Result: -1}
	if n.kind == '"' {
		b.Kind, b.Text, b.Virtual, b.Plain, b.Empty = Text, n.at, true, true, n.text == ""
		*into = append(*into, b)
		return
	}
	first := len(ix.Markers)
	res := r.inside(n, seq)
	r.marker(n, seq, &b.Marker)
	r.sort(first, &b.Marker)
	b.null = n.get("cache_control").kind == 'n'
	text := n.get("text")
	switch typ := n.get("type"); {
	case typ.is("text") && text.kind == '"':
		b.Kind, b.Text, b.Empty = Text, text.at, text.text == ""
		b.Plain = !slices.ContainsFunc(n.members, func(m member) bool { return m.key != "type" && m.key != "text" && m.key != "cache_control" })
		b.Billing = msg < 0 && strings.HasPrefix(text.text, "x-anthropic-billing-header:")
	case msg < 0:
	case typ.is("thinking"), typ.is("redacted_thinking"):
		b.Kind = Thinking
	case typ.is("tool_use"):
		b.Kind, b.Call = ToolUse, int32(len(ix.Calls))
		ix.Calls = append(ix.Calls, Call{ID: n.get("id").at, Name: n.get("name").at, Input: n.get("input").at, Block: num, Msg: msg, answer: -1})
	case typ.is("tool_result"):
		b.Kind, b.Result = ToolResult, int32(len(ix.Results))
		res.CallID, res.Content, res.Block, res.Msg, res.Call = n.get("tool_use_id").at, n.get("content").at, num, msg, -1
		res.IsError = n.get("is_error").kind == 't'
		ix.Results = append(ix.Results, res)
	}
	*into = append(*into, b)
}

// sort brings the markers of one block, noted in the order of the walk, into the order of the body.
func (r *reference) sort(first int, mine *int32) {
	slices.SortFunc(r.want.Markers[first:], func(a, b Marker) int { return cmp.Compare(a.Member.Lo, b.Member.Lo) })
	for i := first; *mine >= 0 && i < len(r.want.Markers); i++ {
		if !r.want.Markers[i].Nested {
			*mine = int32(i)
		}
	}
}

// inside walks what stands inside a block and may hold breakpoints; the result is what its content would be of a result.
func (r *reference) inside(n *node, seq int32) (res Result) {
	for _, m := range n.members {
		switch m.key {
		case "cache_control", "type", "text", "id", "name", "input", "tool_use_id", "is_error":
		case "content":
			before := len(r.want.Markers)
			res = r.content(m.value, seq)
			res.NestedMarker = len(r.want.Markers) > before
		default:
			r.deep(m.value, seq)
		}
	}
	return res
}

func (r *reference) content(n *node, seq int32) Result {
	texts := uint32(len(r.want.Texts))
	res := Result{Form: StrangeForm, Texts: Span{texts, texts}}
	switch n.kind {
	case '"':
		res.Form = StringForm
		if n.text == "" {
			res.Form = NoContent
		}
	case 'n':
		res.Form = NoContent
	case '[':
		res.Form = NoContent
		for _, p := range n.items {
			text := p.get("text")
			isText := p.get("type").is("text") && text.kind == '"'
			if isText {
				r.want.Texts = append(r.want.Texts, text.at)
			}
			switch {
			case !isText || res.Form == MixedForm:
				res.Form = MixedForm
			default:
				res.Form = TextForm
			}
			r.marker(p, seq, nil)
			for _, m := range p.members {
				if m.key != "cache_control" && m.key != "type" && m.key != "text" {
					r.deep(m.value, seq)
				}
			}
			for _, e := range p.items {
				r.deep(e, seq)
			}
		}
	default:
		r.deep(n, seq)
	}
	res.Texts.Hi = uint32(len(r.want.Texts))
	return res
}

func (r *reference) deep(n *node, seq int32) {
	r.marker(n, seq, nil)
	for _, m := range n.members {
		if m.key != "cache_control" || m.value.kind != '{' {
			r.deep(m.value, seq)
		}
	}
	for _, e := range n.items {
		r.deep(e, seq)
	}
}

func (r *reference) message(n *node, num int32) {
	ix := r.want
	m := Message{Raw: n.at, Content: n.get("content").at, First: int32(len(ix.Blocks)), role: n.get("role").at}
	m.Extra = len(n.members) > 2
	if role := n.get("role"); role.is("user") {
		m.Role = User
	} else if role.is("assistant") {
		m.Role = Assistant
	}
	for _, b := range r.list(n.get("content")) {
		r.block(&ix.Blocks, b, num)
	}
	m.Last = int32(len(ix.Blocks))
	if num > 0 {
		m.Turn = ix.Messages[num-1].Turn
	}
	if m.Role == Assistant && (num == 0 || ix.Messages[num-1].Role != Assistant) {
		m.Turn++
	}
	ix.Messages = append(ix.Messages, m)
	for i := range ix.Calls {
		if c := &ix.Calls[i]; c.Msg == num {
			c.Turn = m.Turn
		}
	}
}

// join compares every result with every call.
func (r *reference) join() {
	ix := r.want
	text := func(s Span) (id string) {
		if !utf8.Valid(s.Of(r.body)) {
			return string(s.Of(r.body))
		}
		if err := json.Unmarshal(s.Of(r.body), &id); err != nil {
			id = err.Error()
		}
		return id
	}
	twice := map[string]bool{}
	for i := range ix.Calls {
		for j := range i {
			if id := text(ix.Calls[i].ID); ix.Calls[i].ID.Len() > 0 && ix.Calls[j].ID.Len() > 0 && id == text(ix.Calls[j].ID) {
				twice[id] = true
			}
		}
	}
	for i := range ix.Results {
		res := &ix.Results[i]
		for c := range ix.Calls {
			if ix.Calls[c].ID.Len() > 0 && res.CallID.Len() > 0 && ix.Calls[c].Block < res.Block && text(ix.Calls[c].ID) == text(res.CallID) {
				res.Call, res.Turn = int32(c), ix.Calls[c].Turn
			}
		}
		if res.Call < 0 {
			continue
		}
		if c := &ix.Calls[res.Call]; c.answer < 0 {
			c.answer = int32(i)
		} else {
			twice[text(res.CallID)] = true
		}
	}
	for i := range ix.Results {
		ix.Results[i].Ambiguous = ix.Results[i].CallID.Len() > 0 && twice[text(ix.Results[i].CallID)]
	}
}

// validText is text as encoding/json decodes it: what is no UTF-8 becomes U+FFFD, byte by byte.
func validText(text string) string { return string([]rune(text)) }

// references build, by format, the index that Parse must build of a body.
var references = map[Format]func(rapid.TB, []byte) *Index{Anthropic: referenceOf, Converse: converseReference, Gemini: geminiReference}

// check is the span checker: every span of the index is exactly what encoding/json says it is, and nothing is missing.
func check(t rapid.TB, ix *Index) {
	t.Helper()
	want, got := references[ix.Format](t, ix.Body), *ix
	got.Model, got.UserID = validText(ix.Model), validText(ix.UserID)
	diff := gocmp.Diff(want, &got,
		gocmp.AllowUnexported(Index{}, Block{}, Message{}, Call{}, Result{}, Marker{}),
		cmpopts.IgnoreFields(Index{}, "Body", "Key", "Parts", "cuts", "facts", "ids", "dup", "scratch", "tools", "system", "open", "known", "from", "members", "texts", "pairs", "tokens"),
		cmpopts.IgnoreFields(Block{}, "Hash"), cmpopts.IgnoreFields(Message{}, "Hash", "parts"), cmpopts.IgnoreFields(Marker{}, "area"),
		cmpopts.EquateEmpty())
	if diff != "" {
		t.Fatalf("index differs from encoding/json (-want +got):\n%s\nof %s", diff, clip(ix.Body))
	}
}
