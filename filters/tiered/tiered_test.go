package tiered_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/tiered"
)

func TestFilter(t *testing.T) { filtertest.Run(t, tiered.Name) }

func BenchmarkPropose(b *testing.B) { filtertest.Benchmark(b, tiered.Name) }
