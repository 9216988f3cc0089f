package tiered

import (
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Roles are tool roles by their names.
type Roles []string

// Config are the filter's keys.
type Config struct {
	filters.Common `config:",squash"`
	Window         int   `config:"window" doc:"a result is left alone while fewer later turns have results"`
	StubDistance   int   `config:"stub_distance" doc:"from as many later turns on nothing of a result is kept but facts of its call"`
	MaxChars       int   `config:"max_chars" doc:"characters of an excerpt, three quarters from the head and one from the tail; 0 keeps none"`
	BrowserWindow  int   `config:"browser_window" doc:"newest browser observations that are kept, whatever their distance; older ones become one line; 0 gives them no window of their own"`
	Floor          Roles `config:"floor" doc:"roles of tools whose results keep an excerpt at any distance: read, edit, write, shell, search, list, browser, other"`
	// Summaries.
	SummaryMinChars int                `config:"summary_min_chars" doc:"a result of more characters keeps a summary in place of an excerpt, if one is ready"`
	MaxAttempts     int                `config:"max_attempts_per_pass" doc:"summaries that are begun on a branch between two moves, whatever becomes of them"`
	Summarizer      filters.Summarizer `config:"summarizer" doc:"model that writes summaries in the background: {url, api, model, timeout, max_input_tokens}; without url there are none. What the results hold is sent there, with the credential of the environment variable TIDEMARK_SUMMARIZER_KEY if url is https, or http to a loopback address"`
}

// Default is the config of a route that sets no key. On recorded sessions results of 100 to 300 tokens paid for their markers,
// and smaller ones brought nothing more.
func Default() Config {
	return Config{
		// What the user said in answer to a question is not shortened.
		Common:        filters.Common{Enabled: true, MinTokens: 100, MarkerMode: filters.Full, Tools: filters.Globs{"!AskUserQuestion", "!ExitPlanMode"}},
		Window:        8,
		StubDistance:  20,
		MaxChars:      300,
		BrowserWindow: 3,
		Floor:         Roles{transcript.Read.String(), transcript.Search.String(), transcript.List.String(), transcript.Browser.String()},

		SummaryMinChars: 2000,
		MaxAttempts:     2,
		Summarizer:      filters.Summarizer{API: filters.OpenAI, Timeout: 30 * time.Second, MaxInputTokens: 16_000},
	}
}

// Validate checks the values. The error names the key, the value and what is accepted.
func (c *Config) Validate() error {
	if err := c.Common.Validate(); err != nil {
		return err
	}
	if c.Window < 1 {
		return fmt.Errorf("window: %d is below 1: the newest turn is never touched", c.Window)
	}
	for _, n := range []struct {
		key   string
		value int
	}{
		{"stub_distance", c.StubDistance},
		{"max_chars", c.MaxChars},
		{"browser_window", c.BrowserWindow},
		{"summary_min_chars", c.SummaryMinChars},
		{"max_attempts_per_pass", c.MaxAttempts},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s: %d is negative", n.key, n.value)
		}
	}
	if err := c.Summarizer.Validate(); err != nil {
		return fmt.Errorf("summarizer: %w", err)
	}
	_, err := c.Floor.set()
	return err
}

// roleSet is tool roles by number.
type roleSet [transcript.Browser + 1]bool

// set finds the roles.
func (r Roles) set() (set roleSet, err error) {
	known := make(Roles, 0, len(set))
	for role := range set {
		known = append(known, transcript.ToolRole(role).String()) //nolint:gosec // there are eight roles
	}
	for _, name := range r {
		found := false
		for role := range known {
			if known[role] == name {
				set[role], found = true, true
			}
		}
		if !found {
			return set, fmt.Errorf("floor: %q is no role; accepted: %v", name, known)
		}
	}
	return set, nil
}
