package extproc

import (
	"bytes"
	"context"
)

// duplexState is where a request in FULL_DUPLEX_STREAMED mode stands.
type duplexState uint8

const (
	duplexHeaders    duplexState = iota // nothing came yet
	duplexCollecting                    // the chunks of the body are kept until it ends
	duplexEchoing                       // every chunk goes back as it comes
)

// duplex is the machine of FULL_DUPLEX_STREAMED request bodies. Envoy keeps nothing of what it sent, so that every byte
// must go back, changed or not.
type duplex struct {
	passThrough

	state  duplexState
	chunks [][]byte // collected and not answered
	size   int      // bytes of chunks
}

func (d *duplex) requestHeaders(ctx context.Context, m message) answers {
	d.state = duplexCollecting
	if !d.admitted(ctx, m) {
		d.state = duplexEchoing
	}
	return d.passThrough.requestHeaders(ctx, m)
}

func (d *duplex) requestBody(ctx context.Context, m message) answers {
	if d.state != duplexCollecting {
		return d.passThrough.requestBody(ctx, m)
	}
	b := m.GetRequestBody()
	d.chunks = append(d.chunks, b.GetBody())
	d.size += len(b.GetBody())
	switch {
	case d.size > d.server.o.MaxBody:
		d.why = TooLarge
		out := d.echo(b.GetEndOfStream())
		out[0].DynamicMetadata = untouched(TooLarge)
		return out
	case b.GetEndOfStream():
		return d.finish(ctx, true)
	}
	return nil
}

// requestTrailers ends the body: no chunk before trailers carries end_of_stream.
func (d *duplex) requestTrailers(ctx context.Context, m message) answers {
	if d.state != duplexCollecting {
		return d.passThrough.requestTrailers(ctx, m)
	}
	return d.finish(ctx, false)
}

// finish answers the collected body. end says that no trailers follow; else they came, and are answered last.
func (d *duplex) finish(ctx context.Context, end bool) answers {
	body := d.collected()
	changed, result := d.decide(ctx, body)
	if changed == nil {
		changed = body
	}
	out := d.release(changed, end)
	out[0].DynamicMetadata = result
	return out
}

// release answers what was collected with body, and from here on every chunk with itself.
func (d *duplex) release(body []byte, end bool) answers {
	out := requestChunks(body, end)
	if !end {
		out = append(out, trailersAnswer())
	}
	d.state, d.chunks = duplexEchoing, nil
	return out
}

func (d *duplex) collected() []byte {
	if len(d.chunks) == 1 {
		return d.chunks[0]
	}
	return bytes.Join(d.chunks, nil)
}

// abandon gives back what was collected; a chunk is among that before anything can go wrong with it.
func (d *duplex) abandon(m message) answers {
	if len(d.chunks) == 0 {
		d.state = duplexEchoing
		return d.passThrough.abandon(m)
	}
	d.fault()
	if b := m.GetRequestBody(); b != nil {
		return d.echo(b.GetEndOfStream())
	}
	return d.release(d.collected(), false)
}

// echo answers what was collected with itself; more chunks follow unless end says so.
func (d *duplex) echo(end bool) answers {
	out := requestChunks(d.collected(), end)
	d.state, d.chunks = duplexEchoing, nil
	return out
}
