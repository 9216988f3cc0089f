package observe_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
	"github.com/tidemark-dev/tidemark/state/statetest"
)

// The wrapper keeps the contract of what it wraps.
func TestStoreConformance(t *testing.T) {
	m := observe.NewMetrics("")
	statetest.Run(t, func(*testing.T) state.Store { return m.Store("memory", memory.New()) })
}
