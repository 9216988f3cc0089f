package simprovider

import (
	"regexp"
	"strconv"
)

// model holds what the simulator knows about a model: facts of the provider's documentation as of 2026-11-29.
type model struct {
	minimum int     // tokens that a prefix needs to be cached
	window  int     // tokens that a prompt may have
	rho     float64 // price of a cache read in input tokens
	price   rate
	tier    int  // tokens of a prompt above which all of its tokens cost more; 0: there is no such tier
	above   rate // the price of such prompts

	bound        bool // signatures of thinking blocks are bound to the prefix that produced them
	everyAccount bool // ... for accounts of any age
	prefill      bool // a conversation may end with an assistant message
	system       bool // role "system" may stand among the messages
	opens        bool // with thinking enabled, an assistant message inside a tool loop must start with thinking
}

var (
	nameFirst    = regexp.MustCompile(`^claude-(opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:-(\d{1,2}))?(?:-\d{8}|-latest)?$`)
	versionFirst = regexp.MustCompile(`^claude-(\d)(?:-(\d))?-(opus|sonnet|haiku)(?:-\d{8}|-latest)?$`)
)

// catalogue is what GET /v1/models lists. Other versions of these families are served too.
var catalogue = []string{
	"claude-fable-5-2", "claude-mythos-5-2", "claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1",
	"claude-mythos-5-1", "claude-sonnet-5", "claude-opus-5", "claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6",
	"claude-sonnet-4-6", "claude-opus-4-5", "claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-1",
}

// lookup returns the facts about a model id, or false if no such model is served.
func lookup(id string) (model, bool) {
	if m := nameFirst.FindStringSubmatch(id); m != nil {
		return describe(m[1], version(m[2], m[3])), true
	}
	if m := versionFirst.FindStringSubmatch(id); m != nil {
		return describe(m[3], version(m[1], m[2])), true
	}
	return model{}, false
}

// version is 100 times the major number plus the minor one.
func version(major, minor string) int {
	a, _ := strconv.Atoi(major) // the expressions admit digits only, and no minor number means x.0
	b, _ := strconv.Atoi(minor)
	return 100*a + b
}

// describe returns the facts about a version of a family.
func describe(family string, version int) model {
	m := model{minimum: 1024, window: 200_000, rho: 0.1, prefill: version < 406, opens: version < 406}
	m.bound = version >= 505
	m.charge(family, version)
	switch family {
	case "fable", "mythos":
		m.minimum, m.window, m.system = 512, 1_000_000, true
		m.bound, m.everyAccount = version >= 501, version >= 502
	case "opus":
		m.minimum, m.system = opusMinimum(version), version >= 408
	case "sonnet":
		m.system = version >= 505
		if version >= 505 {
			m.minimum = 512
		}
	case "haiku":
		m.minimum = 2048
		if version >= 405 {
			m.minimum = 4096
		}
		if version >= 505 {
			m.minimum, m.window = 512, 1_000_000
		}
	}
	if (family == "opus" || family == "sonnet") && version >= 406 {
		m.window = 1_000_000
	}
	return m
}

// charge sets the prices. The documentation lists none for Mythos, which is taken to cost what Fable costs.
func (m *model) charge(family string, version int) {
	switch family {
	case "fable", "mythos":
		m.price = rate{10, 50}
		if version >= 501 {
			m.rho = 0.025
		}
		if version >= 502 {
			m.price = rate{8, 40}
		}
	case "opus":
		m.price = rate{15, 75}
		if version >= 405 {
			m.price = rate{5, 25}
		}
		if version >= 505 {
			m.price, m.rho = rate{4, 20}, 0.05
		}
	case "sonnet":
		m.price = rate{3, 15}
		if version >= 500 {
			m.price = rate{2, 10}
		}
		if version >= 505 {
			m.rho = 0.05
		}
	case "haiku":
		m.price = rate{0.80, 4}
		if version >= 405 {
			m.price = rate{1, 5}
		}
		if version >= 505 {
			m.price, m.tier, m.above = rate{0.10, 0.50}, 100_000, rate{0.50, 2.50}
		}
	}
}

func opusMinimum(version int) int {
	switch {
	case version >= 500:
		return 512
	case version >= 408:
		return 1024
	case version >= 407:
		return 2048
	case version >= 405:
		return 4096
	}
	return 1024
}
