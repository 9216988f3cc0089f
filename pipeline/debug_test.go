package pipeline_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/simagent"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
)

func TestDebug(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 0, 64)
	if err != nil {
		t.Skip()
	}
	steps, _ := strconv.Atoi(os.Getenv("STEPS"))
	flush, _ := time.ParseDuration(os.Getenv("FLUSH"))
	events, on := simagent.Play(seed, simagent.Features{}, steps)
	fmt.Println(on.On())
	w := newWorld(config(t, os.Getenv("HOLD")), simprovider.Policy{}, flush)
	w.trace = true
	w.play(events)
	for _, v := range w.violations {
		fmt.Println(v)
	}
}
