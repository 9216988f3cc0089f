package bedrock

import (
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// frames writes events of AWS's binary stream, each flushed.
type frames struct {
	w       io.Writer
	flush   func() error
	encoder *eventstream.Encoder
}

func (f *frames) send(event string, payload any) {
	b, err := json.Marshal(payload)
	if err != nil {
		return // nothing but strings, numbers and valid JSON goes in
	}
	m := eventstream.Message{Payload: b}
	m.Headers.Set(eventstreamapi.EventTypeHeader, eventstream.StringValue(event))
	m.Headers.Set(eventstreamapi.ContentTypeHeader, eventstream.StringValue("application/json"))
	m.Headers.Set(eventstreamapi.MessageTypeHeader, eventstream.StringValue(eventstreamapi.EventMessageType))
	_ = f.encoder.Encode(f.w, m) // a client that went away is its own affair
	_ = f.flush()
}

// pad is the member that makes the sizes of events tell nothing.
func pad(n int) string { return "abcdefghijklmnopqrstuvwxyz"[:n%26+1] }

// chunk is an event of the model in a stream of InvokeModel.
type chunk struct {
	Bytes []byte `json:"bytes"`
	Pad   string `json:"p"`
}

// invocation are figures that Bedrock adds to the last event of InvokeModel.
type invocation struct {
	Input   int   `json:"inputTokenCount"`
	Output  int   `json:"outputTokenCount"`
	Latency int64 `json:"invocationLatency"`
	First   int64 `json:"firstByteLatency"`
	Read    int   `json:"cacheReadInputTokenCount"`
	Write   int   `json:"cacheWriteInputTokenCount"`
}

func (r *Result) streamInvoke(f *frames) {
	r.inner.Events(func(event string, data []byte) {
		if event == "ping" {
			return
		}
		if event == "message_stop" {
			last := struct {
				Type    string     `json:"type"`
				Metrics invocation `json:"amazon-bedrock-invocationMetrics"`
			}{event, invocation{r.Usage.Input, r.Usage.Output, latency, latency / 2, r.Usage.Read, r.Usage.Write5m + r.Usage.Write1h}}
			data, _ = json.Marshal(last) // numbers always marshal
		}
		f.send("chunk", chunk{data, pad(len(data))})
	})
}

func (r *Result) streamConverse(f *frames) {
	send := func(event string, members ...any) {
		n := object(members...)
		n.Put("p", text(pad(len(members)+len(event))))
		f.send(event, json.RawMessage(n.JSON(nil)))
	}
	send("messageStart", "role", text("assistant"))
	for i, raw := range r.Content {
		n, err := simkit.Decode(raw)
		if err != nil {
			continue // it was encoded before
		}
		streamBlock(send, i, n)
	}
	send("messageStop", "stopReason", text(r.StopReason))
	f.send("metadata", struct {
		Usage   wireUsage `json:"usage"`
		Metrics metrics   `json:"metrics"`
		Pad     string    `json:"p"`
	}{wired(r.Usage), metrics{latency}, pad(r.Usage.Output)})
}

func streamBlock(send func(string, ...any), i int, n *node) {
	index := number(i)
	delta := func(d *node) { send("contentBlockDelta", "contentBlockIndex", index, "delta", d) }
	if use := n.Get("toolUse"); use != nil {
		send("contentBlockStart", "contentBlockIndex", index, "start",
			object("toolUse", object("toolUseId", use.Get("toolUseId"), "name", use.Get("name"))))
		each(string(use.Get("input").JSON(nil)), func(s string) { delta(object("toolUse", object("input", text(s)))) })
	} else if said, ok := n.Str("text"); ok {
		each(said, func(s string) { delta(object("text", text(s))) })
	} else if reasoning := n.Get("reasoningContent"); reasoning != nil {
		if data := reasoning.Get("redactedContent"); data != nil {
			delta(object("reasoningContent", object("redactedContent", data)))
		} else {
			thought := reasoning.Get("reasoningText")
			said, _ := thought.Str("text")
			each(said, func(s string) { delta(object("reasoningContent", object("text", text(s)))) })
			delta(object("reasoningContent", object("signature", thought.Get("signature"))))
		}
	}
	send("contentBlockStop", "contentBlockIndex", index)
}

// deltaBytes is how many bytes of text a delta holds, but for the rest of its last character.
const deltaBytes = 24

// each cuts a text into the texts of deltas.
func each(s string, visit func(string)) {
	for s != "" {
		end := min(deltaBytes, len(s))
		for end < len(s) && !utf8.RuneStart(s[end]) {
			end++
		}
		visit(s[:end])
		s = s[end:]
	}
}

func number(i int) *node { return &node{Kind: 'n', Text: strconv.Itoa(i)} }
