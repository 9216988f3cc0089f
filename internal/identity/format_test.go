package identity_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

const profile = "arn:aws:bedrock:us-east-1:111122223333:application-inference-profile/abcd1234"

// paths are those that are read, by what they say.
var paths = []struct {
	want  identity.Wire
	paths []string
}{
	{identity.Wire{Format: transcript.Anthropic}, []string{
		"/v1/messages", "/v1/messages?beta=true", "/team/anthropic/v1/messages", "/anthropic/v1/messages", "//v1/messages",
	}},
	{identity.Wire{Format: transcript.Anthropic, CountTokens: true}, []string{
		"/v1/messages/count_tokens", "/v1/messages/count_tokens?beta=true", "/x/v1/messages/count_tokens",
	}},
	{identity.Wire{Format: transcript.Chat}, []string{
		"/v1/chat/completions", "/chat/completions", "/openai/v1/chat/completions", "/v1beta/openai/chat/completions", "/api/paas/v4/chat/completions",
		"/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
	}},
	{identity.Wire{Format: transcript.Chat, Place: cache.Place{Platform: cache.Azure}, Model: "my deployment"}, []string{
		"/openai/deployments/my%20deployment/chat/completions?api-version=2025-04-01", "/x/openai/deployments/my%20deployment/chat/completions",
	}},
	{identity.Wire{Format: transcript.Chat, Place: cache.Place{Platform: cache.Azure}}, []string{"/openai/v1/chat/completions?api-version=preview"}},
	{identity.Wire{Format: transcript.Responses}, []string{
		"/v1/responses", "/responses", "/openai/v1/responses", "/openai/responses", "/backend-api/codex/responses",
	}},
	{identity.Wire{Format: transcript.Responses, Place: cache.Place{Platform: cache.Azure}}, []string{"/openai/responses?api-version=2025-03-01-preview"}},
	{identity.Wire{Format: transcript.Responses, Auxiliary: true}, []string{"/v1/responses/compact", "/backend-api/codex/responses/compact"}},
	{identity.Wire{Format: transcript.Responses, CountTokens: true}, []string{"/v1/responses/input_tokens"}},
	{identity.Wire{Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Bedrock, Regional: true}, Model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0"}, []string{
		"/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke",
		"/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream",
		"/x/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke",
		"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1111%3Ainference-profile%2Fus.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke",
		"/model/arn:aws:bedrock:us-east-1:1111:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke",
	}},
	{identity.Wire{Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Bedrock, Regional: true}, Model: "anthropic.claude-3-haiku-20240307-v1:0"}, []string{
		"/model/anthropic.claude-3-haiku-20240307-v1:0/invoke",
		"/model/arn:aws:bedrock:us-east-1::foundation-model%2Fanthropic.claude-3-haiku-20240307-v1:0/invoke",
	}},
	{identity.Wire{Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Bedrock, Regional: true}, Model: profile, Unsure: true}, []string{
		"/model/" + url.PathEscape(profile) + "/invoke", "/model/" + profile + "/invoke-with-response-stream",
	}},
	{identity.Wire{Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Bedrock, Regional: true}, Model: "abcd1234", Unsure: true}, []string{"/model/abcd1234/invoke"}},
	{identity.Wire{Format: transcript.Converse, Place: cache.Place{Platform: cache.Bedrock, Regional: true}, Model: "amazon.nova-pro-v1:0"}, []string{
		"/model/amazon.nova-pro-v1%3A0/converse", "/model/amazon.nova-pro-v1:0/converse-stream",
	}},
	{identity.Wire{Format: transcript.Converse, Place: cache.Place{Platform: cache.Bedrock, Regional: true}, Model: profile}, []string{"/model/" + url.PathEscape(profile) + "/converse"}},
	{identity.Wire{Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Vertex, Regional: true}, Model: "claude-sonnet-4-5@20250929"}, []string{
		"/v1/projects/p/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict",
		"/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-4-5%4020250929:streamRawPredict",
		"/v1beta1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-5@20250929%3ArawPredict",
	}},
	{identity.Wire{Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Vertex}, Model: "claude-sonnet-4-5@20250929"}, []string{
		"/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict",
	}},
	{identity.Wire{Format: transcript.Converse, Place: cache.Place{Platform: cache.Bedrock}, Model: "global.anthropic.claude-sonnet-4-5-20250929-v1:0"}, []string{
		"/model/global.anthropic.claude-sonnet-4-5-20250929-v1:0/converse",
	}},
	{identity.Wire{Format: transcript.Anthropic, Place: cache.Place{Platform: cache.Vertex, Regional: true}, CountTokens: true}, []string{
		"/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
	}},
	{identity.Wire{Format: transcript.Gemini, Model: "gemini-3-pro"}, []string{
		"/v1beta/models/gemini-3-pro:generateContent", "/v1/models/gemini-3-pro:streamGenerateContent?alt=sse", "/v1alpha/models/gemini-3-pro:generateContent",
		"/v1beta/tunedModels/gemini-3-pro:generateContent",
	}},
	{identity.Wire{Format: transcript.Gemini, Model: "gemini-3-pro", CountTokens: true}, []string{"/v1beta/models/gemini-3-pro:countTokens"}},
	{identity.Wire{Format: transcript.Gemini, Place: cache.Place{Platform: cache.Vertex, Regional: true}, Model: "gemini-3-pro"}, []string{
		"/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:streamGenerateContent", "/v1/publishers/google/models/gemini-3-pro:generateContent",
	}},
	{identity.Wire{Format: transcript.Gemini, Place: cache.Place{Platform: cache.Vertex, Regional: true}, Model: "gemini-3-pro", CountTokens: true}, []string{
		"/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:countTokens",
	}},
	{identity.Wire{Reason: identity.Wrapped}, []string{
		"/v1internal:streamGenerateContent?alt=sse", "/v1internal:generateContent", "/v1internal:countTokens", "/x/v1internal:loadCodeAssist",
		"/model/anthropic.claude-3-haiku-20240307-v1:0/count-tokens",
	}},
	{identity.Wire{Reason: identity.OtherModel}, []string{
		"/model/amazon.nova-pro-v1:0/invoke", "/model/us.meta.llama3-3-70b-instruct-v1:0/invoke-with-response-stream", "/model/mistral.anthropicish-v1/invoke",
		"/model/arn:aws:bedrock:us-east-1:1:inference-profile%2Fus.amazon.nova-pro-v1:0/invoke",
	}},
	{identity.Wire{Reason: identity.OtherPath}, []string{
		"", "/", "?", ":", "/v1/xmessages", "/messages", "/v1/messages/", "/v1/messages/batches", "/v1/messages/count_tokens/x", "/v1/models?x=/v1/messages",
		"/v1/complete", "/v1/completions", "/xchat/completions", "/v1/chat/completions/chatcmpl-1", "/v1/batches", "/v1/embeddings", "/v1/files", "/v1/models",
		"/openai/deployments/d/completions", "/openai/deployments/d/embeddings",
		"/myresponses", "/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/responses/resp_1/input_items", "/v1/responses/compact/x",
		"/model/anthropic.claude-3/async-invoke", "/model/anthropic.claude-3/invoke-with-bidirectional-stream", "/xmodel/anthropic.claude-3/invoke", "/model/invoke",
		"/model//invoke", "/invoke", "/guardrail/g/version/1/apply",
		"/v1beta/models/gemini-3-pro:embedContent", "/v1beta/models/gemini-3-pro:batchGenerateContent", "/v1beta/models/gemini-3-pro", "/v1beta/models/:generateContent",
		"/v1beta/mymodels/gemini-3-pro:generateContent", "/v1/publishers/anthropic/models/claude:generateContent", "/v1/publishers/mistralai/models/m:rawPredict",
		"/v1/models/claude:rawPredict", "/gemini-3-pro:generateContent", "models:generateContent",
	}},
}

func TestFormat(t *testing.T) {
	for _, c := range paths {
		for _, path := range c.paths {
			if diff := cmp.Diff(c.want, identity.Format(path, "POST", "application/json", "")); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
		}
	}
}

func TestFormatNeedsMethodTypeAndEncoding(t *testing.T) {
	for _, c := range []struct {
		method, contentType, encoding string
		want                          identity.Reason
	}{
		{"POST", "application/json", "", identity.Ours},
		{"POST", "application/json; charset=utf-8", "identity", identity.Ours},
		{"POST", "Application/JSON", "zstd", identity.Ours},
		{"POST", "", "gzip", identity.Ours},
		{"POST", "application/json", "BR", identity.Ours},
		{"GET", "application/json", "", identity.OtherMethod},
		{"DELETE", "application/json", "", identity.OtherMethod},
		{"CONNECT", "", "", identity.OtherMethod},
		{"POST", "text/plain", "", identity.OtherType},
		{"POST", "application/json;;", "", identity.OtherType},
		{"POST", "application/json", "deflate", identity.EncodedContent},
		{"POST", "application/json", "gzip, zstd", identity.EncodedContent},
		{"POST", "application/json", "aws-chunked", identity.EncodedContent},
	} {
		for _, path := range []string{"/v1/messages", "/v1/responses", "/model/anthropic.claude-3/invoke"} {
			got := identity.Format(path, c.method, c.contentType, c.encoding)
			if got.Reason != c.want || (got.Format == transcript.UnknownFormat) != (c.want != identity.Ours) {
				t.Errorf("%s %+v: %+v", path, c, got)
			}
		}
	}
}

// A prefix changes nothing, whatever segments it has; another segment at the end, or a letter before the last one's, does.
func TestFormatLooksAtWholeSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(paths[:len(paths)-1]).Draw(t, "case")
		path := rapid.SampledFrom(c.paths).Draw(t, "path")
		prefix := rapid.StringMatching(`(/[a-z0-9.-]{1,8}){0,3}`).Draw(t, "prefix")
		if diff := cmp.Diff(c.want, identity.Format(prefix+path, "POST", "", "")); diff != "" {
			t.Fatalf("%s: %s", prefix+path, diff)
		}
		bare, _, _ := strings.Cut(path, "?")
		for _, other := range []string{bare + "/batches", bare + "x", bare + "/"} {
			if got := identity.Format(other, "POST", "", ""); got.Reason != identity.OtherPath && got.Reason != identity.Wrapped {
				t.Fatalf("%s: %+v", other, got)
			}
		}
	})
}

// Whatever the path, there is a reason or a format, and what is not read says nothing else.
func FuzzFormat(f *testing.F) {
	for _, c := range paths {
		for _, path := range c.paths {
			f.Add(path)
		}
	}
	f.Fuzz(func(t *testing.T, path string) {
		w := identity.Format(path, "POST", "", "")
		if (w.Reason == identity.Ours) != (w.Format != transcript.UnknownFormat) || w.Reason != identity.Ours && w != (identity.Wire{Reason: w.Reason}) {
			t.Fatalf("%q: %+v", path, w)
		}
		if w.CountTokens && w.Auxiliary || w.Unsure && w.Place.Platform != cache.Bedrock {
			t.Fatalf("%q: %+v", path, w)
		}
	})
}
