package telemetry

import (
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// fields are the fields of a request in access logs as attributes, by the same names with a prefix. Empty ones are left out.
func fields(s *structpb.Struct) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, len(s.GetFields()))
	for _, name := range slices.Sorted(maps.Keys(s.GetFields())) {
		key := "tidemark." + name
		switch v := s.GetFields()[name].GetKind().(type) {
		case *structpb.Value_StringValue:
			if v.StringValue != "" {
				list = append(list, attribute.String(key, text(v.StringValue)))
			}
		case *structpb.Value_BoolValue:
			list = append(list, attribute.Bool(key, v.BoolValue))
		case *structpb.Value_NumberValue:
			if strings.HasSuffix(name, "_usd") {
				list = append(list, attribute.Float64(key, v.NumberValue))
			} else { // a count, or a number of microseconds
				list = append(list, attribute.Int64(key, int64(v.NumberValue)))
			}
		}
	}
	return list
}

// about is what Envoy's own log knows of a request without tidemark.
func about(r *pipeline.Request) (list []attribute.KeyValue) {
	for _, a := range []attribute.KeyValue{attribute.String("tidemark.route", text(r.Route)), attribute.String("tidemark.request_id", text(r.ID))} {
		if a.Value.AsString() != "" {
			list = append(list, a)
		}
	}
	return list
}

// maxText bounds a text that others chose, in bytes: where Envoy keeps a client's x-request-id, that may be anything.
const maxText = 256

// text is a text of others as OTLP can carry it. Bytes that are no UTF-8 would cost the whole batch of spans that they are in.
func text(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "_")
}

// names are the gen_ai attributes of a request. Counting tokens is no operation of the conventions.
func (t *Telemetry) names(r *pipeline.Request, o *pipeline.Outcome, compacted bool) []attribute.KeyValue {
	if t.o.Semconv == Off || r.CountTokens {
		return nil
	}
	list := []attribute.KeyValue{attribute.String("gen_ai.operation.name", operation(r.Format))}
	if p := provider(r); p != "" {
		list = append(list, attribute.String("gen_ai.provider.name", p))
		if t.o.Semconv == Legacy {
			list = append(list, attribute.String("gen_ai.system", p)) // until 1.36
		}
	}
	if m := model(o.Model); m != "" {
		list = append(list, attribute.String("gen_ai.request.model", m))
	}
	if t.o.Semconv == V01 && compacted {
		list = append(list, attribute.Bool("gen_ai.conversation.compacted", true)) // unset means unknown, so that false is never said
	}
	return list
}

// billed are the gen_ai attributes of what was billed. The conventions count as input the whole prompt: what was read from the
// cache and what was written to it are parts of it.
func (t *Telemetry) billed(r *pipeline.Request, v *pipeline.Observation) []attribute.KeyValue {
	if t.o.Semconv == Off || r.CountTokens || v.Usage == nil {
		return nil
	}
	u := v.Usage.Billed()
	list := []attribute.KeyValue{attribute.Int("gen_ai.usage.input_tokens", u.Prompt()), attribute.Int("gen_ai.usage.output_tokens", u.Output)}
	if u.Read > 0 {
		list = append(list, attribute.Int("gen_ai.usage.cache_read.input_tokens", u.Read))
	}
	if n := u.Write5m + u.Write1h; n > 0 {
		written := "gen_ai.usage.cache_write.input_tokens"
		if t.o.Semconv == Legacy {
			written = "gen_ai.usage.cache_creation.input_tokens"
		}
		list = append(list, attribute.Int(written, n))
	}
	return list
}

// operation is the conventions' word for what a request asks for.
func operation(f transcript.Format) string {
	if f == transcript.Gemini {
		return "generate_content"
	}
	return "chat"
}

// provider is the conventions' word for who is asked, as far as format and place tell it.
func provider(r *pipeline.Request) string {
	openai := r.Format == transcript.Chat || r.Format == transcript.Responses
	switch {
	case r.Place.Platform == cache.Bedrock || r.Format == transcript.Converse:
		return "aws.bedrock"
	case r.Place.Platform == cache.Vertex:
		return "gcp.vertex_ai"
	case r.Place.Platform == cache.Azure && openai:
		return "azure.ai.openai"
	case r.Place.Platform == cache.Azure:
		return "azure.ai.inference"
	case openai:
		return "openai"
	case r.Format == transcript.Anthropic:
		return "anthropic"
	case r.Format == transcript.Gemini:
		return "gcp.gemini"
	}
	return ""
}

// model is the name of a model in the price table, empty for one that is not in it.
func model(name string) string {
	if strings.HasPrefix(name, "_") {
		return ""
	}
	return name
}
