package breakpoint

import (
	"regexp"
	"strconv"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// claude finds the version in the name that Bedrock gives a Claude model from 4 on; what may follow is a date of eight digits.
var claude = regexp.MustCompile(`claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:\D|$)`)

// cachingClaude3 are the models before 4 that cache prompts.
var cachingClaude3 = regexp.MustCompile(`claude-3-(?:5-haiku|7-sonnet)`)

// firstHour is the first Claude on Bedrock that takes a ttl, as 100 times the major number plus the minor one. Before it a ttl is
// refused ("Extra inputs are not permitted"), and so it is by Nova (AWS, prompt caching; one hour since January 2026).
const firstHour = 405

// claudeVersion is 0 for anything but a Claude from 4 on, and where the name hides the model.
func claudeVersion(model string) int {
	m := claude.FindStringSubmatch(model)
	if m == nil {
		return 0
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	minor, _ := strconv.Atoi(m[2]) // none means .0
	return 100*major + minor
}

// onBedrock reports whether the body goes to Bedrock, by Converse or by InvokeModel.
func onBedrock(ix *transcript.Index) bool { return ix.Format == transcript.Converse || ix.Bedrock }

// takesTTL reports whether the body's model is known to take a ttl. Elsewhere than on Bedrock every model does.
func takesTTL(ix *transcript.Index) bool {
	return !onBedrock(ix) || claudeVersion(ix.Model) >= firstHour
}

// takesMarkers reports whether the body's model is known to take markers in tools, system and messages alike. Others of
// Bedrock's refuse the request, or take none in tools.
func takesMarkers(ix *transcript.Index) bool {
	return !onBedrock(ix) || claudeVersion(ix.Model) > 0 || cachingClaude3.MatchString(ix.Model)
}
