package coref

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/filters"
)

// Config are the filter's keys.
type Config struct {
	filters.Common  `config:",squash"`
	CutUnreferenced bool    `config:"cut_unreferenced" doc:"replace results of which no later turn used anything"`
	CutClosed       bool    `config:"cut_closed" doc:"replace results that were used less than open_reps times, and not lately"`
	MinLaterTurns   int     `config:"min_later_turns" doc:"assistant turns that must have followed a result"`
	OpenReps        int     `config:"open_reps" doc:"references from which on a result stays, however long ago they were"`
	ClosedDist      int     `config:"closed_dist" doc:"messages between the last reference and the newest message from which on a result is closed"`
	KeepHeadChars   int     `config:"keep_head_chars" doc:"characters of the beginning that a marker shows of what is no JSON; 0: none"`
	MinBatchFrac    float64 `config:"min_batch_frac" doc:"smallest batch of this filter that causes a warm move, as a share of the request's tokens"`
	RewriteBudget   int     `config:"rewrite_budget" doc:"warm moves of a branch in which the filter takes part; 0: none"`
	BreakEven       bool    `config:"break_even" doc:"a warm move must pay; false: the batch alone causes it, whatever it costs"`
	Trigger         Trigger `config:"trigger" doc:"when the filter acts at all; {min_request_frac: 0.5}: from half of the model's window on, and never where the window is not known"`
}

// Trigger says when the filter acts. The zero value is always.
type Trigger struct {
	MinRequestFrac float64 `config:"min_request_frac" doc:"share of the model's window that the request must fill"`
}

// Default is the config of a route that sets no key.
func Default() Config {
	return Config{
		Common:          filters.Common{Enabled: true, MinTokens: 300, MarkerMode: filters.Full},
		CutUnreferenced: true,
		MinLaterTurns:   8,
		OpenReps:        3,
		ClosedDist:      12,
		KeepHeadChars:   96,
		MinBatchFrac:    0.05,
		RewriteBudget:   3,
		BreakEven:       true,
	}
}

// Bounds of values.
const (
	maxCount     = 1_000_000 // turns, messages, references and moves
	maxHeadChars = 1000      // of a marker that must stay one
)

// Validate checks the values. The error names the key.
func (c *Config) Validate() error {
	if err := c.Common.Validate(); err != nil {
		return err
	}
	for _, n := range []struct {
		key       string
		value     int
		low, high int
	}{
		{"min_later_turns", c.MinLaterTurns, 0, maxCount},
		{"open_reps", c.OpenReps, 1, maxCount},
		{"closed_dist", c.ClosedDist, 0, maxCount},
		{"keep_head_chars", c.KeepHeadChars, 0, maxHeadChars},
		{"rewrite_budget", c.RewriteBudget, 0, maxCount},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("%s: %d is not from %d to %d", n.key, n.value, n.low, n.high)
		}
	}
	shares := []struct {
		key   string
		value float64
	}{{"min_batch_frac", c.MinBatchFrac}, {"trigger: min_request_frac", c.Trigger.MinRequestFrac}}
	for _, s := range shares {
		if !(s.value >= 0 && s.value <= 1) {
			return fmt.Errorf("%s: %g is not from 0 to 1", s.key, s.value)
		}
	}
	return nil
}

// policy says in which moves the filter takes part.
func (c *Config) policy() filters.Policy {
	return filters.Policy{
		Cold: true, Warm: c.RewriteBudget > 0, MinBatchFrac: c.MinBatchFrac, RewriteBudget: c.RewriteBudget, BreakEven: c.BreakEven,
	}
}
