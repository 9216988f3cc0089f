package openai

import (
	"slices"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// field is a member that an item must have, and its node kind; 0 is any.
type field struct {
	name string
	kind byte
}

// itemFields lists the kinds of input items and the members that they must have.
var itemFields = map[string][]field{
	"reasoning":               {{"summary", '['}},
	"function_call":           {{"call_id", 's'}, {"name", 's'}, {"arguments", 's'}},
	"function_call_output":    {{"call_id", 's'}, {"output", 0}},
	"custom_tool_call":        {{"call_id", 's'}, {"name", 's'}, {"input", 's'}},
	"custom_tool_call_output": {{"call_id", 's'}, {"output", 0}},
	"local_shell_call":        {{"call_id", 's'}, {"action", '{'}},
	"local_shell_call_output": {{"output", 0}},
	"shell_call":              {{"call_id", 's'}, {"action", '{'}},
	"shell_call_output":       {{"call_id", 's'}, {"output", 0}},
	"apply_patch_call":        {{"call_id", 's'}, {"operation", '{'}},
	"apply_patch_call_output": {{"call_id", 's'}, {"status", 's'}},
	"computer_call":           {{"call_id", 's'}},
	"computer_call_output":    {{"call_id", 's'}, {"output", '{'}},
	"item_reference":          {{"id", 's'}},
	"compaction":              {{"encrypted_content", 's'}},
	"compaction_summary":      {{"encrypted_content", 's'}},
	"compaction_trigger":      nil,
	"web_search_call":         nil,
	"file_search_call":        nil,
	"code_interpreter_call":   nil,
	"image_generation_call":   nil,
	"mcp_list_tools":          nil,
	"mcp_call":                nil,
	"mcp_approval_request":    nil,
	"mcp_approval_response":   nil,
	"additional_tools":        {{"tools", '['}},
	"tool_search_call":        nil,
	"tool_search_output":      {{"tools", '['}},
	"configuration_update":    nil,
}

// itemKinds are the kinds of items that a refusal lists: a message and those above, sorted.
var itemKinds = func() []string {
	list := append(make([]string, 0, 1+len(itemFields)), "message")
	for kind := range itemFields {
		list = append(list, kind)
	}
	slices.Sort(list)
	return list
}()

// answerOf names the kinds of calls that a client answers: the kind of the answer, and what the provider calls the call.
var answerOf = map[string]struct{ output, words string }{
	"function_call":    {"function_call_output", "function call"},
	"custom_tool_call": {"custom_tool_call_output", "custom tool call"},
	"local_shell_call": {"local_shell_call_output", "local shell call"},
	"shell_call":       {"shell_call_output", "shell call"},
	"apply_patch_call": {"apply_patch_call_output", "apply patch call"},
	"computer_call":    {"computer_call_output", "computer call"},
}

// Roles of messages in Responses, and the parts that they may hold.
var (
	itemRoles   = []string{"assistant", "system", "developer", "user"}
	inputParts  = []string{"input_text", "input_image", "input_file"}
	outputParts = []string{"output_text", "refusal"}
)

// readItem reads an input item of Responses.
func (p *parser) readItem(it *item, n *simkit.Node) *flaw {
	kind, ok := n.Str("type")
	if given := n.Get("type"); given != nil && !ok {
		return badType(".type", aString, given)
	}
	if !ok && n.Get("role") != nil {
		kind = "message"
	}
	it.kind = kind
	if kind == "message" {
		return p.readItemMessage(it, n)
	}
	if kind == "" {
		return missing(".type")
	}
	fields, known := itemFields[kind]
	if !known {
		return badValue(".type", kind, itemKinds...)
	}
	for _, f := range fields {
		if f.kind == 0 && n.Get(f.name) == nil {
			return missing("." + f.name)
		}
		if f.kind != 0 {
			if f := wants(n, "", f.name, f.kind); f != nil {
				return f
			}
		}
	}
	it.shrouds = kind == "item_reference"
	if it.call, ok = n.Str("call_id"); !ok {
		it.call = it.id
	}
	it.sealed, _ = n.Str("encrypted_content")
	return p.readRest(it, n)
}

func (p *parser) readItemMessage(it *item, n *simkit.Node) *flaw {
	if f := wants(n, "", "role", 's'); f != nil {
		return f
	}
	it.role, _ = n.Str("role")
	if !slices.Contains(itemRoles, it.role) {
		return badValue(".role", it.role, itemRoles...)
	}
	content := n.Get("content")
	if content == nil {
		return missing(".content")
	}
	lead := leadOf(it.role, bare(n, "type", "role", "content", "id", "status"))
	if it.role == "assistant" {
		return p.readParts(it, content, lead, ".content", "output_text", outputParts)
	}
	return p.readParts(it, content, lead, ".content", "input_text", inputParts)
}

// readRest reads the blocks of an item that is no message. What a model does not see of it is left out: ids, and of sealed
// items everything else.
func (p *parser) readRest(it *item, n *simkit.Node) *flaw {
	switch output := n.Get("output"); {
	case it.kind == "item_reference", it.kind == "compaction_trigger":
		return nil
	case it.sealed != "":
		it.blocks = []*block{p.newBlock(&simkit.Node{Kind: 's', Text: it.sealed}, []byte(it.kind), true)}
		return nil
	case output == nil, !answers(it.kind), it.kind == "computer_call_output", it.kind == "shell_call_output":
	default:
		return p.readParts(it, output, leadOf(it.kind, bare(n, "output", "id", "status")), ".output", "input_text", inputParts)
	}
	it.blocks = []*block{p.newBlock(bare(n, "id", "status"), []byte(it.kind), true)}
	return nil
}

// answers reports whether items of a kind answer a call.
func answers(kind string) bool {
	for _, a := range answerOf {
		if a.output == kind {
			return true
		}
	}
	return false
}

// spoken reports whether the model made an item: it may follow reasoning.
func (it *item) spoken() bool {
	switch it.kind {
	case "message":
		return it.role == "assistant"
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools", "mcp_call",
		"mcp_approval_request", "tool_search_call", "compaction":
		return true
	}
	_, ok := answerOf[it.kind]
	return ok
}
