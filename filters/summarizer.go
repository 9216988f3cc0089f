package filters

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// APIs that a summarizer may speak.
const (
	OpenAI    = "openai"    // Chat Completions
	Anthropic = "anthropic" // Messages
)

// Summarizer says who writes summaries. It is a plain value: two that are equal write the same summaries. The credential is no
// part of it, since config is shown to people.
type Summarizer struct {
	URL            string        `config:"url" doc:"where requests are posted to, whole: https://host/v1/chat/completions or https://host/v1/messages; none: no summaries"`
	API            string        `config:"api" doc:"openai (Chat Completions) or anthropic (Messages)"`
	Model          string        `config:"model" doc:"name of the model"`
	Timeout        time.Duration `config:"timeout" doc:"time that one summary may take"`
	MaxInputTokens int           `config:"max_input_tokens" doc:"estimated tokens of a text that are sent; of a longer one its head and tail"`
}

// Bounds of a summarizer's values.
const (
	minTimeout, maxTimeout = 100 * time.Millisecond, 10 * time.Minute
	minInput, maxInput     = 256, 200_000 // estimated tokens
)

// Given reports whether there is a summarizer at all.
func (s *Summarizer) Given() bool { return s.URL != "" }

// Validate checks the values. The error names the key, the value and what is accepted.
func (s *Summarizer) Validate() error {
	if s.API != OpenAI && s.API != Anthropic {
		return fmt.Errorf("api: %q is not known; accepted: %s, %s", s.API, OpenAI, Anthropic)
	}
	if s.Timeout < minTimeout || s.Timeout > maxTimeout {
		return fmt.Errorf("timeout: %s is not from %s to %s", s.Timeout, minTimeout, maxTimeout)
	}
	if s.MaxInputTokens < minInput || s.MaxInputTokens > maxInput {
		return fmt.Errorf("max_input_tokens: %d is not from %d to %d", s.MaxInputTokens, minInput, maxInput)
	}
	if !s.Given() {
		return nil
	}
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme):
		return errors.New("url: must be the whole address, such as https://host/v1/messages") // it may hold what is nobody's business
	case u.User != nil:
		return errors.New("url: must not hold a credential: the environment variable TIDEMARK_SUMMARIZER_KEY does")
	case s.Model == "":
		return errors.New("model: must be set where url is")
	}
	return nil
}
