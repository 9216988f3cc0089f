package extproc

import "context"

// bufferedState is where a request in BUFFERED mode stands.
type bufferedState uint8

const (
	bufferedHeaders bufferedState = iota // nothing came yet
	bufferedBody                         // the headers are answered, the body is awaited
	bufferedDone                         // the body is answered, or will never be looked at
	bufferedLeft                         // not tidemark's: the stream may end
)

// buffered is the machine of BUFFERED request bodies.
type buffered struct {
	passThrough

	state bufferedState
}

// requestHeaders answers with nothing that depends on the body: if the body's answer is lost, what the headers' answer
// changed stays changed.
func (b *buffered) requestHeaders(ctx context.Context, m message) answers {
	b.state = bufferedBody
	if !b.admitted(ctx, m) {
		b.state = bufferedLeft
	}
	return b.passThrough.requestHeaders(ctx, m)
}

// requestBody answers the body. It is whole whatever its end_of_stream says: that is false where trailers follow.
func (b *buffered) requestBody(ctx context.Context, m message) answers {
	if b.state != bufferedBody {
		return b.passThrough.requestBody(ctx, m)
	}
	b.state = bufferedDone
	body := m.GetRequestBody().GetBody()
	a := bodyAnswer(nil)
	if len(body) > b.server.o.MaxBody {
		b.why = TooLarge
		a.DynamicMetadata = untouched(TooLarge)
		return one(a)
	}
	changed, result := b.decide(ctx, body)
	if changed != nil {
		a = bodyAnswer(changed)
	}
	a.DynamicMetadata = result
	return one(a)
}

func (b *buffered) abandon(m message) answers {
	b.state = bufferedDone
	return b.passThrough.abandon(m)
}

func (b *buffered) left() bool { return b.state == bufferedLeft }
