package bedrock

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

// minimums are the tokens that a prefix needs to be cached, by model, where Bedrock wants more than Anthropic.
var minimums = map[string]int{"claude-opus-4-7": 4096}

// served reports whether a model is one of those that the simulator knows.
func served(name string) bool { return simprovider.Units(name, simprovider.Usage{Input: 1}) > 0 }

var (
	nameFirst    = regexp.MustCompile(`^claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|$)`)
	versionFirst = regexp.MustCompile(`^claude-(\d)(?:-(\d))?-([a-z]+)`)
)

// version is 100 times the major number plus the minor one.
func version(name string) int {
	m := nameFirst.FindStringSubmatch(name)
	if m == nil {
		if m = versionFirst.FindStringSubmatch(name); m == nil {
			return 0
		}
	}
	major, _ := strconv.Atoi(m[1]) // the expressions admit digits only, and no minor number means x.0
	minor, _ := strconv.Atoi(m[2])
	return 100*major + minor
}

// caches reports whether a model has prompt caching on Bedrock: Claude 3.5 Haiku, 3.7 Sonnet and later.
func caches(name string) bool {
	return version(name) >= 307 || version(name) == 305 && strings.Contains(name, "haiku")
}

// lasting reports whether a model knows lifetimes: Claude 4.5 and later.
func lasting(name string) bool { return version(name) >= 405 }

// premium is what endpoints of a region, and profiles of a geography, cost more than global ones, from Claude 4.5 on.
const premium = 1.1

// Units returns what a request costs, in uncached input tokens of the model's lowest price. It is 0 for a model that is not
// served.
func Units(id string, u Usage) float64 { return simprovider.Units(anthropicName(id), u) }

// Bill returns what a request costs in USD, output included. It is 0 for a model that is not served.
func Bill(id string, u Usage) float64 {
	name := anthropicName(id)
	usd := simprovider.Bill(name, u)
	if version(name) >= 405 && !strings.HasPrefix(id[strings.LastIndexByte(id, '/')+1:], "global.") {
		usd *= premium
	}
	return usd
}

// Cost returns the price of a request's input in the units of [Units]; output is not part of it.
func (s *Sim) Cost(rec Received) float64 {
	u := rec.Usage
	u.Output = 0
	return Units(rec.Model, u)
}
