package usage

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
	"github.com/tidwall/gjson"
)

// Sizes of a frame, in bytes: two lengths, their checksum and that of the frame are around headers and payload.
const (
	frameLengths = 8
	frameLeast   = frameLengths + 4 + 4
)

// readFrames reads a stream of AWS's binary frames, whose payloads are the events.
func readFrames(body io.Reader, a account) { eachFrame(body, a.event) }

// readWrapped reads what InvokeModelWithResponseStream makes of a stream of events: each is the base64 of a chunk's bytes. Bedrock
// adds figures of its own to the last event, which say less than the event does.
func readWrapped(body io.Reader, a account) {
	eachFrame(body, func(kind string, payload []byte) {
		if kind != "chunk" || !json.Valid(payload) {
			return
		}
		if data, err := base64.StdEncoding.DecodeString(gjson.GetBytes(payload, "bytes").Str); err == nil {
			a.event("", data)
		}
	})
}

// eachFrame takes a stream of frames apart, for as long as they are whole and their checksums are right: behind one that is not,
// nobody knows where the next begins. The payload is the taker's until it returns.
func eachFrame(body io.Reader, take func(kind string, payload []byte)) {
	b := bufio.NewReader(body)
	decoder := eventstream.NewDecoder()
	var buf []byte
	for {
		head, err := b.Peek(frameLengths)
		if err != nil {
			return
		}
		// The decoder trusts both lengths, so that it gets none that would have it read without end.
		frame, headers := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if frame < frameLeast || headers > frame-frameLeast {
			return
		}
		if frame > maxEvent {
			if _, err := io.CopyN(io.Discard, b, int64(frame)); err != nil {
				return
			}
			continue
		}
		m, err := decoder.Decode(b, buf)
		if err != nil {
			return
		}
		kind, _ := m.Headers.Get(eventstreamapi.EventTypeHeader).(eventstream.StringValue) // exceptions and errors have none
		take(string(kind), m.Payload)
		buf = m.Payload[:0]
	}
}
