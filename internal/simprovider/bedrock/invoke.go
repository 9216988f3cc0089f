package bedrock

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// anthropicVersion is the only version of the body.
const anthropicVersion = "bedrock-2023-05-31"

// foreign are members of Anthropic's own API that Bedrock has elsewhere or not at all.
var foreign = []string{"model", "stream", "cache_control", "thread", "diagnostics", "compaction", "speed", "container", "mcp_servers"}

// foreignBetas are betas of features that Bedrock does not have.
var foreignBetas = []string{
	"message-threads-2026-08-12", "compact-2026-09-04", "prompt-caching-scope-2026-01-05", "cache-diagnosis-2026-04-07",
}

const (
	notPermitted = ": Extra inputs are not permitted"
	required     = ": Field required"
)

// readInvoke puts a body of InvokeModel into Anthropic's form: what is not Bedrock's keeps its bytes.
func readInvoke(e endpoint, body []byte) (*asked, *Error) {
	out := &asked{body: fmt.Appendf(nil, `{"model":%q`, e.name)}
	var fault *Error
	version, marked := false, false
	err := simkit.Members(body, func(name string, at int) (int, error) {
		end, err := simkit.Skip(body, at)
		if err == nil {
			err = simkit.Sound(body[at:end])
		}
		if err != nil {
			return 0, err
		}
		value := body[at:end]
		switch {
		case name == "anthropic_version":
			version = true
			if text := ""; json.Unmarshal(value, &text) != nil || text != anthropicVersion {
				fault = first(fault, e.refuse("anthropic_version: Input should be '%s'", anthropicVersion))
			}
		case name == "anthropic_beta":
			if json.Unmarshal(value, &out.betas) != nil {
				fault = first(fault, e.refuse("anthropic_beta: Input should be a valid list"))
			}
		case slices.Contains(foreign, name):
			fault = first(fault, e.refuse("%s%s", name, notPermitted))
		default:
			key, _ := json.Marshal(name) // a string always marshals
			out.body = append(append(append(append(out.body, ','), key...), ':'), value...)
			marked = marked || name == "tools" || name == "system" || name == "messages"
		}
		return end, nil
	})
	out.body = append(out.body, '}')
	switch {
	case err != nil:
		return nil, e.syntax()
	case !version:
		return nil, e.refuse("anthropic_version%s", required)
	case fault != nil:
		return nil, fault
	}
	if f := e.checkBetas(out.betas); f != nil {
		return nil, f
	}
	if marked && !lasting(e.name) {
		return out, e.checkLifetimes(out.body)
	}
	return out, nil
}

func first(a, b *Error) *Error {
	if a != nil {
		return a
	}
	return b
}

func (e endpoint) checkBetas(betas []string) *Error {
	for _, beta := range betas {
		if slices.Contains(foreignBetas, beta) {
			return e.refuse("invalid beta flag")
		}
	}
	return nil
}

// checkLifetimes refuses what models before Claude 4.5 do not know of breakpoints: a lifetime, or breakpoints at all. The body is in
// Anthropic's form and valid.
func (e endpoint) checkLifetimes(body []byte) *Error {
	n, err := simkit.Decode(body)
	if err != nil {
		return e.syntax()
	}
	var fault *Error
	check := func(list *simkit.Node, path string) {
		if list == nil || list.Kind != '[' {
			return
		}
		for i, kid := range list.Kids {
			mark := kid.Get("cache_control")
			if mark == nil || mark.Is("null") {
				continue
			}
			tag := ""
			if kind, ok := kid.Str("type"); ok && path != "system" {
				tag = "." + kind
			} else if path == "tools" {
				tag = ".custom"
			}
			fault = first(fault, e.lifetime(mark, fmt.Sprintf("%s.%d%s", path, i, tag)))
		}
	}
	check(n.Get("tools"), "tools")
	check(n.Get("system"), "system")
	if messages := n.Get("messages"); messages != nil {
		for i, m := range messages.Kids {
			check(m.Get("content"), fmt.Sprintf("messages.%d.content", i))
		}
	}
	return fault
}

func (e endpoint) lifetime(mark *simkit.Node, path string) *Error {
	switch {
	case !caches(e.name):
		return &Error{403, "AccessDeniedException", "You invoked an unsupported model or your request did not allow prompt caching. " +
			"See the documentation for more information."}
	case mark.Get("ttl") != nil && !lasting(e.name):
		return e.refuse("%s.cache_control.ephemeral.ttl%s", path, notPermitted)
	}
	return nil
}
