package cache

import "strings"

// bound lists the model families whose thinking blocks are bound to the exact prefix that produced them: editing sent
// history is refused by the provider ("preserved thinking", in force from 2026-09-01 on; table as of 2026-11-29).
var bound = []string{
	"claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1", "claude-mythos-5-2",
	"claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5",
}

// Bound reports whether the provider binds thinking blocks of the model to their prefix. Platform prefixes
// ("anthropic.", "us.anthropic.", "vertex/…"), dots for dashes and date or version suffixes do not matter.
func Bound(model string) bool {
	m := strings.ReplaceAll(strings.ToLower(model), ".", "-")
	for _, family := range bound {
		if _, rest, ok := strings.Cut(m, family); ok && (rest == "" || rest[0] < '0' || rest[0] > '9') {
			return true
		}
	}
	return false
}
