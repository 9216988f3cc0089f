package coref_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/filters/coref"
	"github.com/tidemark-dev/tidemark/filters/filtertest"
)

func TestFilter(t *testing.T) { filtertest.Run(t, coref.Name) }

func BenchmarkPropose(b *testing.B) { filtertest.Benchmark(b, coref.Name) }
