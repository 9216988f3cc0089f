package envoytest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/extproc"
)

// serve runs a server in this process and returns its address.
func (e *Env) serve(tb testing.TB, o extproc.Options) string {
	tb.Helper()
	o.Log = slog.New(slog.NewTextHandler(&e.log, nil))
	if o.DrainDelay == 0 {
		o.DrainDelay = 10 * time.Millisecond
	}
	lis, err := extproc.Listen(tb.Context(), "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- extproc.New(o).Serve(ctx, lis) }()
	e.drain = sync.OnceValue(func() error { cancel(); return <-served })
	tb.Cleanup(func() {
		if err := e.drain(); err != nil {
			tb.Error(err)
		}
	})
	return lis.Addr().String()
}

// buffer keeps what processes and goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
