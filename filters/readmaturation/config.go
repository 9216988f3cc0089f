package readmaturation

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/filters"
)

// Hold says which reads are held.
type Hold string

// Values of the hold key.
const (
	Economic Hold = "economic" // where holding is the cheapest of three ways: hold, cache for good, cache and cut when cold
	Always   Hold = "always"   // every read that may be held
	Never    Hold = "never"    // none
)

// Config are the filter's keys.
type Config struct {
	filters.Common `config:",squash"`
	QuiesceTurns   int  `config:"quiesce_turns" doc:"turns without a call on the file after which a held read matures"`
	MaxHoldTurns   int  `config:"max_hold_turns" doc:"turns after which a held read matures however busy its file is"`
	MinSizeBytes   int  `config:"min_size_bytes" doc:"smallest read that is held, in bytes of its unescaped UTF-8 text"`
	Hold           Hold `config:"hold" doc:"economic: hold where that is cheaper than caching, by the price table and the calls that are expected; always: every read that may be held; never: none"`
}

// Default is the config of a route that sets no key. Turns and cap were fitted to recorded sessions: next calls on a file
// cluster within three turns, and a longer hold costs more than it saves.
func Default() Config {
	return Config{
		Common:       filters.Common{Enabled: true, MarkerMode: filters.Full},
		QuiesceTurns: 3,
		MaxHoldTurns: 8,
		MinSizeBytes: 2048,
		Hold:         Economic,
	}
}

// Validate checks the values. The error names the key, the value and what is accepted.
func (c *Config) Validate() error {
	if err := c.Common.Validate(); err != nil {
		return err
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"quiesce_turns", c.QuiesceTurns}, {"max_hold_turns", c.MaxHoldTurns}, {"min_size_bytes", c.MinSizeBytes}} {
		if n.value < 0 {
			return fmt.Errorf("%s: %d is negative", n.key, n.value)
		}
	}
	if c.Hold != Economic && c.Hold != Always && c.Hold != Never {
		return fmt.Errorf("hold: %q is not known; accepted: %s, %s, %s", c.Hold, Economic, Always, Never)
	}
	return nil
}
