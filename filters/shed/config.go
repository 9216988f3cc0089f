package shed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
)

// Config are the filter's keys. It has no min_tokens and no tools: it cuts exchanges, whatever they hold.
type Config struct {
	Enabled         bool               `config:"enabled" doc:"false stops new cuts; the one in force is replayed"`
	MarkerMode      filters.MarkerMode `config:"marker_mode" doc:"full: the original is kept and can be restored; summary: stub without id, lossy; off: meter only"`
	Budget          int                `config:"budget" doc:"estimated tokens of messages above which a span is cut; 0: never"`
	Quantum         int                `config:"quantum" doc:"a cut leaves out as many whole quanta of estimated tokens as bring the messages back within budget"`
	KeepRecentTurns int                `config:"keep_recent_turns" doc:"newest assistant turns that are never cut"`
	KeepHuman       bool               `config:"keep_human" doc:"what humans said in the span stays in its place, with what they answered; false: it goes too, but for pins"`
	Pins            []string           `config:"pins" doc:"a human's text with a line that starts so is kept word for word in the stub where keep_human is false"`
}

// Default returns the default of every key.
func Default() Config {
	return Config{
		Enabled: true, MarkerMode: filters.Full, Budget: 96_000, Quantum: 48_000, KeepRecentTurns: 6, KeepHuman: true,
		Pins: []string{"[tidemark:goal]", "[fak:goal]"},
	}
}

// Validate checks the values. The error names the key, the value and what is accepted.
func (c *Config) Validate() error {
	common := filters.Common{MarkerMode: c.MarkerMode}
	if err := common.Validate(); err != nil {
		return err
	}
	switch {
	case c.Budget < 0:
		return fmt.Errorf("budget: %d is negative", c.Budget)
	case c.Quantum < 1:
		return fmt.Errorf("quantum: %d is less than 1", c.Quantum)
	case c.KeepRecentTurns < 1:
		return fmt.Errorf("keep_recent_turns: %d is less than 1", c.KeepRecentTurns)
	}
	if slices.Contains(c.Pins, "") {
		return errors.New("pins: one is empty")
	}
	return nil
}
