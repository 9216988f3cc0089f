package bedrock

import (
	"fmt"
)

// putSystem adds the system prompt in Anthropic's form.
func (c *conversation) putSystem(body *node) *Error {
	list := c.values["system"]
	switch {
	case list == nil || list.Is("null"):
		return nil
	case list.Kind != '[':
		return serialization(list, "a List")
	}
	out := &node{Kind: '['}
	for i, kid := range list.Kids {
		if kid.Kind != '{' {
			return serialization(kid, "a SystemContentBlock")
		}
		if point := kid.Get("cachePoint"); point != nil {
			if f := markLast(point, member("system", i)+".cachePoint", fmt.Sprintf("system.%d", i), out); f != nil {
				return f
			}
			continue
		}
		said := kid.Get("text")
		if guard := kid.Get("guardContent"); guard != nil && guard.Get("text") != nil {
			said = guard.Get("text").Get("text")
		}
		switch {
		case said == nil:
			return invalid("SystemContentBlock object at system.%d must set one of the following keys: text, guardContent, cachePoint.", i)
		case said.Kind != 's':
			return serialization(said, "a String")
		case blank(said.Text):
			return invalid("The text field in the SystemContentBlock object at system.%d is blank. Add text to the text field, and try again.", i)
		}
		out.Kids = append(out.Kids, object("type", text("text"), "text", said))
	}
	if len(out.Kids) > 0 {
		body.Put("system", out)
	}
	return nil
}

// markLast sets the breakpoint of the last block in a list.
func markLast(point *node, schema, dotted string, before *node) *Error {
	mark, f := breakpoint(point, func(int) string { return schema })
	if f != nil {
		return f(0)
	}
	last := len(before.Kids) - 1
	if last < 0 || before.Kids[last].Get("cache_control") != nil {
		return endpoint{api: converse}.refuse("%s.type%s", dotted, required)
	}
	before.Kids[last].Put("cache_control", mark)
	return nil
}

// putTools adds tools and tool choice in Anthropic's form.
func (c *conversation) putTools(body *node) *Error {
	config := c.values["toolConfig"]
	if config == nil || config.Is("null") {
		return nil
	}
	list := config.Get("tools")
	switch {
	case config.Kind != '{':
		return serialization(config, "a ToolConfiguration")
	case list == nil:
		return missing("toolConfig.tools")
	case list.Kind != '[':
		return serialization(list, "a List")
	case len(list.Kids) == 0:
		return constraint("'[]'", "toolConfig.tools", "have length greater than or equal to 1")
	}
	out := &node{Kind: '['}
	for i, kid := range list.Kids {
		if point := kid.Get("cachePoint"); point != nil {
			if f := markLast(point, member("toolConfig.tools", i)+".cachePoint", fmt.Sprintf("tools.%d", i), out); f != nil {
				return f
			}
			continue
		}
		tool, f := toolSpec(kid, member("toolConfig.tools", i)+".toolSpec")
		if f != nil {
			return f
		}
		out.Kids = append(out.Kids, tool)
	}
	body.Put("tools", out)
	return putChoice(config.Get("toolChoice"), body)
}

func toolSpec(n *node, schema string) (*node, *Error) {
	spec := n.Get("toolSpec")
	if spec == nil || spec.Kind != '{' {
		return nil, missing(schema)
	}
	name, ok := spec.Str("name")
	switch {
	case !ok:
		return nil, missing(schema + ".name")
	case !named.MatchString(name):
		return nil, constraint("'"+name+"'", schema+".name", "satisfy regular expression pattern: [a-zA-Z0-9_-]+")
	case len(name) > longestName:
		return nil, constraint("'"+name+"'", schema+".name", fmt.Sprintf("have length less than or equal to %d", longestName))
	}
	out := object("name", text(name))
	if description := spec.Get("description"); description != nil && !description.Is("null") {
		out.Put("description", description)
	}
	in := spec.Get("inputSchema")
	if in == nil || in.Get("json") == nil {
		return nil, missing(schema + ".inputSchema")
	}
	out.Put("input_schema", in.Get("json"))
	return out, nil
}

func putChoice(choice, body *node) *Error {
	if choice == nil || choice.Is("null") {
		return nil
	}
	for _, kind := range []string{"auto", "any", "tool"} {
		value := choice.Get(kind)
		if value == nil {
			continue
		}
		out := object("type", text(kind))
		if name := value.Get("name"); name != nil {
			out.Put("name", name)
		}
		body.Put("tool_choice", out)
		return nil
	}
	return invalid("ToolChoice object at toolConfig.toolChoice must set one of the following keys: auto, any, tool.")
}
