package pipeline

import (
	"context"
	"time"
)

// patience is how long a request waits for the session's lock: a quarter of the time that is left.
func patience(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return time.Until(d) / 4 //nolint:forbidigo // a deadline is wall-clock time
	}
	return time.Second
}

// grace is what a replay may take beyond the deadline: a stale replay would cost the prefix, a late one only time.
const grace = 25 * time.Millisecond

// lenient is ctx with at least grace left.
func lenient(ctx context.Context) (context.Context, context.CancelFunc) {
	left := grace
	if d, ok := ctx.Deadline(); !ok && ctx.Err() == nil {
		left = settleTimeout
	} else if ok {
		left = max(left, time.Until(d)) //nolint:forbidigo // a deadline is wall-clock time
	}
	return context.WithTimeout(context.WithoutCancel(ctx), left)
}
