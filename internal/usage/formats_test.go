package usage

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// spoken is a usage and an answer as a format says them: events of a stream, and a document.
type spoken struct {
	usage  pipeline.Usage
	answer []string
}

func (s *spoken) prompt() int { return s.usage.Prompt() }

func object(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func quoted(s string) string {
	b, _ := json.Marshal(s) // of a string
	return string(b)
}

func sseOf(events []string) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// voice says a usage in a format: as a document, and as a stream.
type voice struct {
	format    transcript.Format
	lifetimes bool // it tells them apart
	writes    bool // it tells writes at all
	document  func(s *spoken) string
	streams   map[string]func(s *spoken) string // by media type
}

func anthropicUsage(u *pipeline.Usage, output int) string {
	return object(`{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":%d},"output_tokens":%d}`,
		u.Input, u.Write5m+u.Write1h, u.Read, u.Write5m, u.Write1h, output)
}

func anthropicEvents(s *spoken) []string {
	list := []string{object(`{"type":"message_start","message":{"id":"m","usage":%s}}`, anthropicUsage(&s.usage, 1))}
	for _, w := range s.answer {
		list = append(list, object(`{"type":"content_block_delta","delta":{"text":%s}}`, quoted(w)))
	}
	return append(list, object(`{"type":"message_delta","usage":{"output_tokens":%d}}`, s.usage.Output))
}

func chatUsage(s *spoken) string {
	return object(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d}}`,
		s.prompt(), s.usage.Output, s.prompt()+s.usage.Output, s.usage.Read, s.usage.Write5m)
}

func responsesDocument(s *spoken) string {
	return object(`{"id":"m","output":[{"type":"message","content":[{"text":%s}]}],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d}}`,
		quoted(strings.Join(s.answer, "")), s.prompt(), s.usage.Read, s.usage.Write5m, s.usage.Output)
}

func converseUsage(u *pipeline.Usage) string {
	return object(`{"usage":{"inputTokens":%d,"outputTokens":%d,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d,"cacheDetails":[{"ttl":"1h","inputTokens":%d},{"ttl":"5m","inputTokens":%d}]}}`,
		u.Input, u.Output, u.Read, u.Write5m+u.Write1h, u.Write1h, u.Write5m)
}

func geminiChunk(s *spoken, text, finish string, output int) string {
	return object(`{"responseId":"m","candidates":[{"content":{"parts":[{"text":%s}]}%s}],"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d}}`,
		quoted(text), finish, s.prompt(), s.usage.Read, output/3, output-output/3)
}

func geminiChunks(s *spoken) []string {
	list := []string{}
	for i, w := range s.answer {
		list = append(list, geminiChunk(s, w, "", i))
	}
	return append(list, geminiChunk(s, "", `,"finishReason":"STOP"`, s.usage.Output))
}

var voices = []voice{
	{
		format: transcript.Anthropic, lifetimes: true, writes: true,
		document: func(s *spoken) string {
			return object(`{"id":"m","usage":%s}`, anthropicUsage(&s.usage, s.usage.Output))
		},
		streams: map[string]func(s *spoken) string{
			sse: func(s *spoken) string { return sseOf(anthropicEvents(s)) },
			frames: func(s *spoken) string {
				var b strings.Builder
				for _, e := range anthropicEvents(s) {
					b.Write(frame("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(e))+`"}`))
				}
				return b.String()
			},
		},
	},
	{
		format: transcript.Chat, writes: true,
		document: func(s *spoken) string { return object(`{"id":"m","usage":%s}`, chatUsage(s)) },
		streams: map[string]func(s *spoken) string{sse: func(s *spoken) string {
			list := []string{}
			for _, w := range s.answer {
				list = append(list, object(`{"id":"m","choices":[{"delta":{"content":%s}}],"usage":null}`, quoted(w)))
			}
			return sseOf(append(list, object(`{"id":"m","choices":[],"usage":%s}`, chatUsage(s)), "[DONE]"))
		}},
	},
	{
		format: transcript.Responses, writes: true,
		document: responsesDocument,
		streams: map[string]func(s *spoken) string{sse: func(s *spoken) string {
			list := []string{}
			for _, w := range s.answer {
				list = append(list, object(`{"type":"response.output_text.delta","delta":%s}`, quoted(w)))
			}
			return sseOf(append(list, object(`{"type":"response.completed","response":%s}`, responsesDocument(s))))
		}},
	},
	{
		format: transcript.Converse, lifetimes: true, writes: true,
		document: func(s *spoken) string { return converseUsage(&s.usage) },
		streams: map[string]func(s *spoken) string{frames: func(s *spoken) string {
			var b strings.Builder
			for _, w := range s.answer {
				b.Write(frame("contentBlockDelta", object(`{"delta":{"text":%s}}`, quoted(w))))
			}
			b.Write(frame("metadata", converseUsage(&s.usage)))
			return b.String()
		}},
	},
	{
		format:   transcript.Gemini,
		document: func(s *spoken) string { return geminiChunk(s, "", `,"finishReason":"STOP"`, s.usage.Output) },
		streams: map[string]func(s *spoken) string{
			sse:  func(s *spoken) string { return sseOf(geminiChunks(s)) },
			text: func(s *spoken) string { return "[" + strings.Join(geminiChunks(s), "\n,\n") + "]\n" },
		},
	},
}

// Any usage that a format can say comes out of its documents and of its streams, however they are encoded and cut.
func TestAnyUsage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 2_000_000)
		full := pipeline.Usage{
			Input: n.Draw(t, "input"), Read: n.Draw(t, "read"), Write5m: n.Draw(t, "5m"), Write1h: n.Draw(t, "1h"), Output: n.Draw(t, "output"),
		}
		answer := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"[DONE]", "\"}]", "data: {}\n\n", `"response.completed"`, `\`})), 0, 5).Draw(t, "answer")
		v := rapid.SampledFrom(voices).Draw(t, "voice")
		s := &spoken{full, answer}
		if !v.lifetimes {
			s.usage.Write1h = 0
		}
		if !v.writes {
			s.usage.Write5m = 0
		}
		s.usage.Merged = !v.lifetimes && s.usage.Write5m > 0
		want := pipeline.Response{Message: "m", Usage: &s.usage}
		if v.format == transcript.Converse {
			want.Message = ""
		}
		if s.usage.Prompt() == 0 {
			want.Usage = nil
		}
		coding := rapid.SampledFrom([]string{"", "gzip", "deflate", "br", "zstd"}).Draw(t, "coding")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 8).Draw(t, "sizes")
		check := func(contentType, body string) {
			r := &pieces{encode(silent{}, coding, body, 2), sizes, 0}
			if d := cmp.Diff(want, For(v.format, "", contentType, coding).Read(r)); d != "" {
				t.Fatalf("%s, %s in %q: %s\n%s", v.format, contentType, coding, d, body)
			}
		}
		check(text, v.document(s))
		for contentType, stream := range v.streams {
			check(contentType, stream(s))
		}
	})
}

// What a server or a gateway says beside the documentation, in one chunk of a chat whose end follows.
func TestChatUsage(t *testing.T) {
	for name, c := range map[string]struct {
		usage string
		want  *pipeline.Usage
	}{
		"null":                {`null`, nil},
		"zeros":               {`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, nil},
		"no output":           {`{"prompt_tokens":7}`, nil},
		"text":                {`{"prompt_tokens":"7","completion_tokens":"1"}`, nil},
		"null details":        {`{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":null}`, &pipeline.Usage{Input: 7, Output: 1}},
		"zeros beside a read": {`{"prompt_tokens":7,"completion_tokens":1,"prompt_cache_hit_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}`, &pipeline.Usage{Input: 2, Read: 5, Output: 1}},
		"more read than sent": {`{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8}}`, nil},
		"all read":            {`{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":7}}`, &pipeline.Usage{Read: 7, Output: 1}},
		"DashScope":           {`{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":4}}}`, &pipeline.Usage{Input: 3, Read: 2, Write5m: 4, Output: 1}},
		"reasoning alone":     {`{"prompt_tokens":7,"total_tokens":10,"completion_tokens_details":{"reasoning_tokens":3}}`, nil},
		"reasoning within":    {`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":3}}`, &pipeline.Usage{Input: 7, Output: 5}},
		"reasoning beside":    {`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":15,"completion_tokens_details":{"reasoning_tokens":3}}`, &pipeline.Usage{Input: 7, Output: 8}},
		"another total":       {`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":99,"completion_tokens_details":{"reasoning_tokens":3}}`, &pipeline.Usage{Input: 7, Output: 5}},
		"too many":            {`{"prompt_tokens":1e99,"completion_tokens":1e99,"total_tokens":1e99}`, &pipeline.Usage{Input: maxTokens, Output: maxTokens}},
	} {
		chunk := `{"choices":[],"usage":` + c.usage + `}`
		for contentType, body := range map[string]string{text: chunk, sse: "data: " + chunk + "\n\ndata: [DONE]\n\n"} {
			if d := cmp.Diff(pipeline.Response{Usage: c.want}, For(transcript.Chat, "", contentType, "").Read(strings.NewReader(body))); d != "" {
				t.Errorf("%s, %s: %s", name, contentType, d)
			}
		}
	}
}

// A stream of a chat is over at its end, or with usage in a chunk of its own after a reason to finish; nothing counts behind it.
func TestChatEnds(t *testing.T) {
	const (
		text    = "data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\n"
		finish  = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n"
		alone   = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n"
		silent  = "data: {\"choices\":[],\"usage\":null}\n\n"
		failure = "data: {\"error\":{\"message\":\"x\"}}\n\n"
		zeros   = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\n"
		end     = "data: [DONE]\n\n"
	)
	for body, output := range map[string]int{
		text + end:                          1,
		text:                                0,
		text + finish:                       0,
		text + finish + silent:              0,
		text + finish + end:                 2,
		text + alone:                        0,
		text + finish + alone:               3,
		text + finish + alone + end:         3,
		text + end + alone:                  1,
		text + zeros + end:                  1,
		finish + alone + failure:            0,
		finish + alone + failure + end:      0,
		text + failure + finish + end:       2,
		text + failure + end:                0,
		end:                                 0,
		"data:  [DONE] \n\n" + text:         0,
		text + "event: done\ndata: [DONE]":  1,
		"data: [\"[DONE]\"]\n\n" + text:     0,
		text + "data: [DONE\n\ndata: ]\n\n": 0,
	} {
		got := For(transcript.Chat, "", sse, "").Read(strings.NewReader(body))
		if (got.Usage == nil) != (output == 0) || got.Usage != nil && got.Usage.Output != output {
			t.Errorf("%q: %+v", body, got.Usage)
		}
	}
}

// What responses of other formats say, or do not, where they are not as their vectors are.
func TestOtherWords(t *testing.T) {
	const last = `data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2}}` + "\n\n"
	five := &pipeline.Usage{Input: 5, Output: 2}
	for name, c := range map[string]struct {
		format            transcript.Format
		contentType, body string
		want              pipeline.Response
	}{
		"a created response":    {transcript.Responses, sse, `data: {"type":"response.created","response":{"id":"r","model":"m","usage":null}}`, pipeline.Response{Message: "r", Model: "m"}},
		"another event's usage": {transcript.Responses, sse, `data: {"type":"response.created","response":{"id":"r","usage":{"input_tokens":5,"output_tokens":2}},"x":"response.completed"}`, pipeline.Response{Message: "r"}},
		"a compaction": {
			transcript.Responses, text, `{"object":"response.compaction","output":[{"type":"message"},{"type":"compaction","encrypted_content":"x"}],"usage":{"input_tokens":5,"output_tokens":2}}`,
			pipeline.Response{Usage: five, Unclear: true},
		},
		"calls of the client": {
			transcript.Responses, text, `{"output":[{"type":"shell_call"},{"type":"local_shell_call"},{"type":"custom_tool_call"},{"type":"apply_patch_call"},{"type":"mcp_approval_request"}],"usage":{"input_tokens":5,"output_tokens":2}}`,
			pipeline.Response{Usage: five},
		},
		"more read than asked":  {transcript.Responses, text, `{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":6},"output_tokens":2}}`, pipeline.Response{}},
		"Gemini, then nothing":  {transcript.Gemini, sse, last + `data: {"usageMetadata":{"promptTokenCount":0,"trafficType":"ON_DEMAND"}}`, pipeline.Response{Usage: five}},
		"Gemini, then an error": {transcript.Gemini, sse, last + `data: {"error":{"code":503}}`, pipeline.Response{}},
		"Gemini's usage behind": {transcript.Gemini, sse, `data: {"candidates":[{"finishReason":"STOP"}]}` + "\n\n" + `data: {"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2}}`, pipeline.Response{Usage: five}},
		"Gemini's null":         {transcript.Gemini, text, `{"usageMetadata":null}`, pipeline.Response{}},
		"Converse's null":       {transcript.Converse, text, `{"usage":null}`, pipeline.Response{}},
		"Converse's error":      {transcript.Converse, text, `{"message":"Too many tokens"}`, pipeline.Response{}},
		"OpenAI on Bedrock":     {transcript.Converse, frames, string(frame("metadata", `{"usage":{"inputTokens":5,"outputTokens":2,"cacheReadInputTokens":6}}`)), pipeline.Response{Usage: &pipeline.Usage{Input: 5, Read: 6, Output: 2}}},
		"no base64":             {transcript.Anthropic, frames, string(frame("chunk", `{"bytes":"%"}`)) + string(frame("chunk", `{`)), pipeline.Response{}},
	} {
		if d := cmp.Diff(c.want, For(c.format, "openai.gpt-5.6", c.contentType, "").Read(strings.NewReader(c.body))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A frame that is too large is left out, one whose lengths cannot be is the end, and so is one with a wrong checksum.
func TestFrames(t *testing.T) {
	word := string(frame("metadata", `{"usage":{"inputTokens":5,"outputTokens":1}}`))
	read := func(body string) *pipeline.Usage {
		return For(transcript.Converse, "", frames, "").Read(strings.NewReader(body)).Usage
	}
	broken := []byte(word)
	broken[len(broken)-1]++
	for body, want := range map[string]bool{
		word:        true,
		word + word: true,
		string(frame("metadata", `{"usage":{"inputTokens":5,"outputTokens":1},"p":"`+strings.Repeat("x", maxEvent)+`"}`)): false,
		string(frame("contentBlockDelta", strings.Repeat("x", maxEvent))) + word:                                          true,
		string(frame("contentBlockDelta", "")) + word:                                                                     true,
		string(broken):                              false,
		string(broken) + word:                       false,
		"\x00\x00\x00\x0f\x00\x00\x00\x00" + word:   false,
		"\x00\x00\x00\x10\x00\x00\x00\x01" + word:   false,
		"\xff\xff\xff\xff\x00\x00\x00\x00" + word:   false,
		"\x00\x00\x00\x20\xff\xff\xff\xff" + word:   false,
		string(frame("metadata", `{"usage":null}`)): false,
	} {
		if got := read(body); (got != nil) != want {
			t.Errorf("%.80q: %+v", body, got)
		}
	}
}

// An element of an array that is too large is left out, and so is what is no object.
func TestElements(t *testing.T) {
	const word = `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5}}`
	for body, want := range map[string]bool{
		"[" + word + "]": true,
		" \n[" + word:    true,
		"[" + word[:70]:  false,
		"[][" + word:     false,
		"[{\"x\":\"" + strings.Repeat("x", maxEvent) + "\"," + word[1:] + "]": false,
		"[1,\"{\",null," + word:  true,
		"[\"\\\"{\\\\\"," + word: true,
		"[[" + word + "]]":       false,
		"[{]}" + word:            false,
		"":                       false,
		"[{\"x\":\"" + strings.Repeat("x", maxEvent) + "\"}," + word: true,
	} {
		if got := For(transcript.Gemini, "", text, "").Read(strings.NewReader(body)).Usage; (got != nil) != want {
			t.Errorf("%.80q: %+v", body, got)
		}
	}
}

// fuzz holds any body to this, in any format that comes in the media type: reading it ends, and it says the same in one piece and
// byte by byte. How much a decoder hands out before it meets damage depends on the pieces, so of a damaged body that is not said.
func fuzz(f *testing.F, contentType string, seeds ...[]byte) {
	f.Helper()
	codings := []string{"", "gzip", "deflate", "br", "zstd"}
	for i, seed := range seeds {
		f.Add(uint8(transcript.Anthropic), uint8(0), seed)
		f.Add(uint8(transcript.Anthropic), uint8(i), encode(f, codings[i%len(codings)], string(seed), 2))
	}
	for _, v := range vectors(f) {
		if media, _, _ := strings.Cut(v.contentType, ";"); media == contentType {
			f.Add(uint8(v.format), uint8(0), v.body)
			f.Add(uint8(v.format), uint8(len(v.body)), encode(f, codings[len(v.body)%len(codings)], string(v.body), 2))
		}
	}
	f.Fuzz(func(t *testing.T, format, coding uint8, body []byte) {
		encoded := codings[int(coding)%len(codings)]
		p := For(transcript.Format(format%6), "openai.x", contentType, encoded)
		if p == nil {
			return
		}
		all := p.Read(bytes.NewReader(body))
		if d := cmp.Diff(all, p.Read(&pieces{body, []int{1}, 0})); d != "" && !damaged(encoded, body) {
			t.Error(d)
		}
		for u := all.Usage; u != nil; u = u.Bill {
			if min(u.Input, u.Read, u.Write5m, u.Write1h, u.Output) < 0 || max(u.Input, u.Read, u.Write5m, u.Write1h, u.Output) > maxTokens || u.Prompt() == 0 {
				t.Errorf("usage %+v", u)
			}
		}
	})
}

// damaged reports whether a decoder refuses a body, which is more than that it is cut off.
func damaged(coding string, body []byte) bool {
	r, err := decoders[coding](bytes.NewReader(body))
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

func FuzzDocument(f *testing.F) {
	seeds := [][]byte{}
	for _, c := range samplings {
		seeds = append(seeds, []byte(`{"usage":`+c.usage+`}`))
	}
	for _, body := range samples[text] {
		seeds = append(seeds, []byte(body))
	}
	fuzz(f, document, seeds...)
}

func FuzzEvents(f *testing.F) {
	seeds := [][]byte{}
	for _, body := range samples[sse] {
		seeds = append(seeds, []byte(body))
	}
	fuzz(f, events, seeds...)
}

func FuzzFrames(f *testing.F) { fuzz(f, frames) }
