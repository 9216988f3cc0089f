package shed_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/shed"
)

func TestFilter(t *testing.T) { filtertest.Run(t, shed.Name) }

func BenchmarkPropose(b *testing.B) { filtertest.Benchmark(b, shed.Name) }
