package readlifecycle_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/filters/filtertest"
	"github.com/tidemark-dev/tidemark/filters/readlifecycle"
	"github.com/tidemark-dev/tidemark/internal/vectors"
)

func TestFilter(t *testing.T) { filtertest.Run(t, readlifecycle.Name) }

func TestLifecycleCases(t *testing.T) {
	dir, err := vectors.LifecycleDir("read_lifecycle")
	if err != nil {
		t.Fatal(err)
	}
	filtertest.Vectors(t, readlifecycle.Name, dir)
}

func BenchmarkPropose(b *testing.B) { filtertest.Benchmark(b, readlifecycle.Name) }
