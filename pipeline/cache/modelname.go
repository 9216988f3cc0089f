package cache

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gptFamily is the family of GPT models whose name has no variant; those with one are "gpt-" and the variant.
const gptFamily = "gpt"

// firstBinding is the version from which on a Claude model of an unknown family counts as bound. The first model that bound
// its thinking was 5.1.
const firstBinding = 500

// model is what the name of a model says.
type model struct {
	family    string // empty if no known one
	version   int    // 100 times the major number plus the minor one, -1 if the name has none
	gpt       bool
	anthropic bool // of Anthropic, also where the family is not known or the name hides the model
	variant   bool // a word is in the name that makes it another model than the listed ones
}

// naming reads names of models. Which families there are is up to the price file.
type naming struct {
	nameFirst    *regexp.Regexp // opus-5-5
	versionFirst *regexp.Regexp // claude-3-5-haiku, at the end
	variants     []string       // families of GPT and Gemini
}

// geminiPrefix begins the families of Gemini, which are named by their variants.
const geminiPrefix = "gemini-"

// geminiName takes gemini, its version and its variant: gemini-3.1-pro-preview, gemini-2.5-flash-lite.
var geminiName = regexp.MustCompile(`\bgemini-(\d{1,2})(?:-(\d{1,2}))?-([a-z]+(?:-lite)?)\b`)

// gptName takes gpt, its version and whatever follows. What has no number is no model of this kind (gpt-oss, gpt-image).
var gptName = regexp.MustCompile(`\bgpt-?(\d{1,2})(?:-(\d{1,2})\b)?([a-z0-9-]*)`)

// anthropicName finds a name of Anthropic's, and its version where it has one: "claude-2-1", "claude-instant-v1". A profile
// that an account named itself hides the model.
var anthropicName = regexp.MustCompile(`\b(?:claude|anthropic|application-inference-profile)\b(?:(?:-[a-z]+)*-v?(\d{1,2})\b(?:-(\d{1,2})\b)?)?`)

// harmless are words that do not make another model of a GPT, as far as prices go.
var harmless = []string{"chat", "codex", "latest", "preview"}

func newNaming(families []familyFile) *naming {
	n := &naming{}
	var words []string
	for _, f := range families {
		if f.Name == gptFamily || strings.HasPrefix(f.Name, gptFamily+"-") || strings.HasPrefix(f.Name, geminiPrefix) {
			n.variants = append(n.variants, f.Name)
		} else {
			words = append(words, regexp.QuoteMeta(f.Name))
		}
	}
	word := `(` + strings.Join(words, "|") + `)`
	n.nameFirst = regexp.MustCompile(`\b` + word + `\b(?:-(\d{1,2})\b(?:-(\d{1,2})\b)?)?`)
	n.versionFirst = regexp.MustCompile(`\bclaude-(\d{1,2})(?:-(\d{1,2}))?-` + word + `$`)
	return n
}

var separators = strings.NewReplacer(".", "-", "_", "-", "/", "-")

// normal writes a name the one way in which names are compared: lower case, dashes for dots, underscores and slashes.
func normal(name string) string { return separators.Replace(strings.ToLower(name)) }

// parse reads a name in its normal form. Where several models are named, the last counts: what comes first is the platform.
func (n *naming) parse(name string) model {
	if m, ok := n.claude(name); ok {
		return m
	}
	if all := geminiName.FindAllStringSubmatch(name, -1); all != nil {
		m := all[len(all)-1]
		out := model{version: version(m[1], m[2])}
		if family := geminiPrefix + m[3]; slices.Contains(n.variants, family) {
			out.family = family
		}
		return out
	}
	if all := gptName.FindAllStringSubmatch(name, -1); all != nil {
		m := all[len(all)-1]
		out := model{family: gptFamily, version: version(m[1], m[2]), gpt: true}
		for _, word := range strings.FieldsFunc(m[3], func(c rune) bool { return c == '-' }) {
			switch {
			case slices.Contains(n.variants, gptFamily+"-"+word):
				out.family = gptFamily + "-" + word
			case !slices.Contains(harmless, word) && strings.Trim(word, "0123456789") != "":
				out.variant = true
			}
		}
		return out
	}
	if m := anthropicName.FindStringSubmatch(name); m != nil {
		return model{version: version(m[1], m[2]), anthropic: true}
	}
	return model{version: -1}
}

// claude reads the last word of the name that is a family of Claude. Of two versions around it the newer one counts.
func (n *naming) claude(name string) (model, bool) {
	all := n.nameFirst.FindAllStringSubmatchIndex(name, -1)
	if all == nil {
		return model{}, false
	}
	last := all[len(all)-1]
	group := func(i int) string {
		if last[2*i] < 0 {
			return ""
		}
		return name[last[2*i]:last[2*i+1]]
	}
	m := model{family: group(1), version: version(group(2), group(3)), anthropic: true}
	if before := n.versionFirst.FindStringSubmatch(name[:last[3]]); before != nil {
		m.version = max(m.version, version(before[1], before[2]))
	}
	return m, true
}

// version is 100 times the major number plus the minor one, -1 without a major number.
func version(major, minor string) int {
	a, err := strconv.Atoi(major)
	if err != nil {
		return -1
	}
	b, _ := strconv.Atoi(minor) // no minor number means x.0, and the expressions admit digits alone
	return 100*a + b
}
