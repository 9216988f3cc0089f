package memory_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/memory"
	"github.com/tidemark-dev/tidemark/state/statetest"
)

func TestConformance(t *testing.T) {
	statetest.Run(t, func(*testing.T) state.Store { return memory.New() })
}

func TestCap(t *testing.T) {
	statetest.RunCapped(t, func(_ *testing.T, most int64) statetest.Capped { return memory.Capped(most) })
}

func TestWithSecret(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, 32)
	s := memory.WithSecret(secret)
	clear(secret)
	got, err := s.Secret(context.Background())
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{7}, 32)) {
		t.Errorf("secret %x, %v", got, err)
	}
	a, _ := memory.New().Secret(context.Background())
	b, _ := memory.New().Secret(context.Background())
	if bytes.Equal(a, b) {
		t.Error("two stores have the same secret")
	}
}
