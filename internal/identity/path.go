package identity

import (
	"net/url"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// notOurs is a path that tidemark does not read.
var notOurs = Wire{Reason: OtherPath}

// pathOf says what a path asks for. Gateways put prefixes before the providers' paths, so that a path is known by its last
// segments, which must be whole: /v1/xmessages is nobody's. What follows a known path makes it another one, as in
// /v1/messages/batches and /v1/responses/{id}/cancel.
func pathOf(path string) Wire {
	path, query, _ := strings.Cut(path, "?")
	s := strings.Split(path, "/")
	for i := range s {
		if plain, err := url.PathUnescape(s[i]); err == nil {
			s[i] = plain
		}
	}
	last := s[len(s)-1]
	switch {
	case ends(s, "v1", "messages"):
		return Wire{Format: transcript.Anthropic}
	case ends(s, "v1", "messages", "count_tokens"):
		return Wire{Format: transcript.Anthropic, CountTokens: true}
	case ends(s, "chat", "completions"):
		return openAI(Wire{Format: transcript.Chat}, s, query)
	case ends(s, "responses"):
		return openAI(Wire{Format: transcript.Responses}, s, query)
	case ends(s, "responses", "compact"):
		return openAI(Wire{Format: transcript.Responses, Auxiliary: true}, s, query)
	case ends(s, "responses", "input_tokens"):
		return openAI(Wire{Format: transcript.Responses, CountTokens: true}, s, query)
	case last == "converse", last == "converse-stream", last == "invoke", last == "invoke-with-response-stream", last == "count-tokens":
		return bedrock(s)
	case strings.HasPrefix(last, "v1internal:"): // Code Assist: {model, project, request: {…}}
		return Wire{Reason: Wrapped}
	}
	if at := strings.LastIndexByte(last, ':'); at >= 0 {
		return google(s, last[:at], last[at+1:])
	}
	return notOurs
}

// ends reports whether the segments of a path end in these.
func ends(s []string, tail ...string) bool {
	n := len(s) - len(tail)
	if n < 0 {
		return false
	}
	for i, t := range tail {
		if s[n+i] != t {
			return false
		}
	}
	return true
}

// openAI adds what only Azure's paths say: /openai/deployments/{deployment}/… names the deployment, which is no model but
// all there is if the body has none, and api-version in the query is Azure's alone. /openai/v1 is not: others have it too.
func openAI(w Wire, s []string, query string) Wire {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == "openai" && s[i+1] == "deployments" {
			w.Model, w.Place.Platform = s[i+2], cache.Azure
		}
	}
	if values, err := url.ParseQuery(query); err == nil && values.Has("api-version") {
		w.Place.Platform = cache.Azure
	}
	return w
}

// global begins the ids of Bedrock's inference profiles that send requests to any region.
const global = "global."

// bedrock reads /model/{id}/{verb} of the Bedrock runtime. Converse is one shape for all vendors; InvokeModel has the vendor's
// own. count-tokens wraps either body.
func bedrock(s []string) Wire {
	id, hidden := foundation(bedrockID(s))
	w := Wire{Model: id, Place: cache.Place{Platform: cache.Bedrock, Regional: !strings.HasPrefix(id, global)}}
	switch verb := s[len(s)-1]; {
	case id == "":
		return notOurs
	case verb == "count-tokens":
		return Wire{Reason: Wrapped}
	case verb == "converse" || verb == "converse-stream":
		w.Format = transcript.Converse
	case !hidden && !isAnthropic(id):
		return Wire{Reason: OtherModel}
	default:
		w.Format, w.Unsure = transcript.Anthropic, hidden
	}
	return w
}

// bedrockID is what stands between the segment model and the verb. Proxies that decode the path leave the slashes of an ARN
// bare.
func bedrockID(s []string) string {
	for i := len(s) - 3; i >= 0; i-- {
		if s[i] == "model" {
			return strings.Join(s[i+1:len(s)-1], "/")
		}
	}
	return ""
}

// foundation returns the model that an id of Bedrock's stands for. ARNs of foundation models and of the inference profiles
// that AWS defines end in its id. Those of application inference profiles, provisioned throughput and deployments hide it, as
// does an id without a vendor; they are returned as they are.
func foundation(model string) (id string, hidden bool) {
	if !strings.HasPrefix(model, "arn:") {
		return model, !strings.Contains(model, ".")
	}
	for _, kind := range []string{":foundation-model/", ":inference-profile/"} {
		if _, id, ok := strings.Cut(model, kind); ok {
			return id, false
		}
	}
	return model, true
}

// isAnthropic reports whether a model id of Bedrock's names Anthropic as its vendor: anthropic.claude-…, or the same after
// the region of an inference profile, as in us.anthropic.claude-….
func isAnthropic(id string) bool {
	vendor, rest, ok := strings.Cut(id, ".")
	if ok && vendor != "anthropic" {
		vendor, _, ok = strings.Cut(rest, ".")
	}
	return ok && vendor == "anthropic"
}

// google reads {model}:{verb} of Vertex AI and of the Gemini API. On Vertex the publisher stands before the models; tuned
// models of the Gemini API have a collection of their own.
func google(s []string, model, verb string) Wire {
	n := len(s) - 1
	if n < 1 || model == "" || s[n-1] != "models" && s[n-1] != "tunedModels" {
		return notOurs
	}
	w := Wire{Model: model}
	publisher := "google"
	if n >= 3 && s[n-1] == "models" && s[n-3] == "publishers" {
		publisher, w.Place = s[n-2], cache.Place{Platform: cache.Vertex, Regional: !slices.Contains(s, "global")}
	}
	switch {
	case publisher == "anthropic" && (verb == "rawPredict" || verb == "streamRawPredict"):
		w.Format = transcript.Anthropic
		if model == "count-tokens" { // the body names the model
			w.Model, w.CountTokens = "", true
		}
	case publisher == "google" && (verb == "generateContent" || verb == "streamGenerateContent"):
		w.Format = transcript.Gemini
	case publisher == "google" && verb == "countTokens":
		w.Format, w.CountTokens = transcript.Gemini, true
	default:
		return notOurs
	}
	return w
}
