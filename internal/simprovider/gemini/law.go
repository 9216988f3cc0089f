package gemini

import (
	"fmt"
	"strings"
)

// checkEmpty refuses roles that are none, and what says nothing.
func checkEmpty(r *request) *Error {
	if len(r.contents) == 0 {
		if r.vertex {
			return unable("at least one contents field is required")
		}
		return refuse("* GenerateContentRequest.contents: contents is not specified\n")
	}
	var lines strings.Builder
	for i, c := range r.contents {
		switch c.role {
		case "user", "model", "function":
		case "":
			if r.vertex && len(r.contents) > 1 {
				return refuse("Please use a valid role: user, model.")
			}
		default:
			return refuse("Please use a valid role: user, model.")
		}
		path := indexed("contents", i)
		if len(c.parts) == 0 {
			if r.vertex {
				return unable("it must include at least one parts field, which describes the prompt input")
			}
			fmt.Fprintf(&lines, "* GenerateContentRequest.%s.parts: contents.parts must not be empty.\n", path)
		}
		if hollow(&lines, path, c.parts) && r.vertex {
			return unable("it must have a text parameter")
		}
	}
	hollow(&lines, "system_instruction", r.system)
	if lines.Len() > 0 {
		return refuse("%s", lines.String())
	}
	return nil
}

// hollow writes what is wrong with parts that say nothing, and reports whether one lacks its data. Only a signature may stand
// without a text.
func hollow(lines *strings.Builder, path string, parts []*part) bool {
	found := false
	for i, x := range parts {
		at := indexed("* GenerateContentRequest."+path+".parts", i)
		switch {
		case x.kind == "" && x.signature == "", x.kind == "text" && x.text == "" && x.signature == "":
			found = true
			fmt.Fprintf(lines, "%s.data: required oneof field 'data' must have one initialized field\n", at)
		case (x.kind == "functionCall" || x.kind == "functionResponse") && x.name == "":
			fmt.Fprintf(lines, "%s.%s.name: Name cannot be empty.\n", at, snake(x.kind))
		}
	}
	return found
}

// speaker is who says a content: what has no role is the user's.
func (c *content) speaker() string {
	if c.role == "model" {
		return c.role
	}
	return "user"
}

// checkTurns wants every function call answered by as many responses, in the content right behind it.
func checkTurns(r *request) *Error {
	open := 0
	for i, c := range r.contents {
		switch {
		case open > 0 && c.responses != open:
			return refuse("Please ensure that the number of function response parts is equal to the number of function call parts " +
				"of the function call turn.")
		case c.responses > 0 && (open == 0 || c.speaker() == "model"):
			return refuse("Please ensure that function response turn comes immediately after a function call turn.")
		case c.calls > 0 && (c.speaker() != "model" || i == 0 || r.contents[i-1].speaker() != "user"):
			return refuse("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		}
		open = c.calls
	}
	if open > 0 {
		return refuse("Please ensure that multiturn requests ends with a user role or a function response.")
	}
	return nil
}

// checkMissing wants signatures of the function calls in the turn that is going on, where the model signs them.
func checkMissing(r *request) *Error {
	if !r.facts.signs() {
		return nil
	}
	start := 0
	for i, c := range r.contents {
		if c.speaker() == "user" && c.responses < len(c.parts) {
			start = i
		}
	}
	for i, c := range r.contents[start:] {
		call := c.firstCall()
		if call == nil || call.signature != "" {
			continue
		}
		position := start + i + 1
		if r.vertex {
			return refuse("Unable to submit request because function call `%s` in the %d. content block is missing a `thought_signature`. "+
				"Learn more: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures", call.name, position)
		}
		return refuse("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and "+
			"missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d. "+
			"Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", call.name, position)
	}
	return nil
}

func (c *content) firstCall() *part {
	for _, x := range c.parts {
		if x.kind == "functionCall" {
			return x
		}
	}
	return nil
}
