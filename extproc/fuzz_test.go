package extproc

import (
	"bytes"
	"log/slog"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protodelim"
)

// maxFuzzed is how many messages of a stream are played.
const maxFuzzed = 16

// FuzzStream: whatever messages come, in whatever order, nothing panics and every answer is of a kind that its message may have.
func FuzzStream(f *testing.F) {
	seed := func(messages ...message) {
		var b bytes.Buffer
		for _, m := range messages {
			if _, err := protodelim.MarshalTo(&b, m); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(b.Bytes())
	}
	seed(headersMessage(modeBuffered, false), bodyMessage(`{"messages":[]}`, true))
	seed(headersMessage(modeDuplex, false), bodyMessage(`{"mess`, false), bodyMessage(`ages":[]}`, false), trailersMessage())
	seed(headersMessage(modeStreamed, false), bodyMessage("a", false), bodyMessage("b", true))
	seed(headersMessage(modePartial, true))
	seed(bodyMessage("a body first", true), headersMessage(modeBuffered, false), headersMessage(modeDuplex, false))
	seed(trailersMessage(), trailersMessage())
	f.Fuzz(func(t *testing.T, stream []byte) {
		var messages []message
		for r := bytes.NewReader(stream); len(messages) < maxFuzzed; {
			m := &extprocv3.ProcessingRequest{}
			if protodelim.UnmarshalFrom(r, m) != nil {
				break
			}
			messages = append(messages, m)
		}
		if len(messages) == 0 {
			return
		}
		var log bytes.Buffer
		s, _ := newTestServer(upper, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		perMessage, _ := exchange(s, messages...)
		if bytes.Contains(log.Bytes(), []byte("panic")) {
			t.Fatalf("%s", log.Bytes())
		}
		for _, answers := range perMessage {
			for _, a := range answers {
				if _, ok := a.GetResponse().(*extprocv3.ProcessingResponse_ImmediateResponse); ok {
					t.Fatal("tidemark answers in the provider's place")
				}
			}
		}
	})
}
