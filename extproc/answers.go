package extproc

import (
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// ResultNamespace is the dynamic metadata that carries the outcome of a request to access logs. It is not the namespace of the
// route's config: Envoy merges what is emitted into what is there and sends it back in later messages.
const ResultNamespace = "tidemark.result"

// Untouched is the outcome of a request that went on without the engine; its gate says why.
const Untouched = "untouched"

// maxChunk is the largest chunk of a body in full duplex, in bytes: Envoy recommends to stay below 64 kB.
const maxChunk = 62000

func one(a *extprocv3.ProcessingResponse) answers { return answers{a} }

// headersAnswer answers request headers: the bypass header goes, nothing else changes. A reason for passing becomes the
// result of the request.
func headersAnswer(m message, why string) *extprocv3.ProcessingResponse {
	a := &extprocv3.HeadersResponse{}
	if headersOf(m).Get(BypassHeader) != "" {
		a.Response = &extprocv3.CommonResponse{
			HeaderMutation: &extprocv3.HeaderMutation{RemoveHeaders: []string{BypassHeader}},
		}
	}
	out := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: a}}
	if why != "" {
		out.DynamicMetadata = untouched(why)
	}
	return out
}

// bodyAnswer answers a request body that Envoy still holds; nil leaves it as it is. Envoy compares the body with the
// content-length and refuses the request if they differ, so that both are changed in one answer.
func bodyAnswer(changed []byte) *extprocv3.ProcessingResponse {
	a := &extprocv3.BodyResponse{}
	if changed != nil {
		a.Response = &extprocv3.CommonResponse{
			HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{{
				Header: &corev3.HeaderValue{
					Key:      "content-length",
					RawValue: strconv.AppendInt(nil, int64(len(changed)), 10),
				},
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			}}},
			BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: changed}},
		}
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: a}}
}

// untouched is the result of a request that went on without the engine.
func untouched(why string) *structpb.Struct {
	return inNamespace(&structpb.Struct{Fields: map[string]*structpb.Value{
		"outcome": structpb.NewStringValue(Untouched), "gate": structpb.NewStringValue(why),
	}})
}

// inNamespace is a result as the dynamic metadata of an answer.
func inNamespace(result *structpb.Struct) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{ResultNamespace: structpb.NewStructValue(result)}}
}

func trailersAnswer() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{
		RequestTrailers: &extprocv3.TrailersResponse{},
	}}
}

// requestChunks answers a body in full duplex. An empty body that ends is one empty chunk, one that does not is none.
func requestChunks(body []byte, end bool) answers {
	return chunks(body, end, func(b *extprocv3.BodyResponse) *extprocv3.ProcessingResponse {
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: b}}
	})
}

// responseChunks is requestChunks for the response.
func responseChunks(body []byte, end bool) answers {
	return chunks(body, end, func(b *extprocv3.BodyResponse) *extprocv3.ProcessingResponse {
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: b}}
	})
}

func chunks(body []byte, end bool, wrap func(*extprocv3.BodyResponse) *extprocv3.ProcessingResponse) answers {
	out := make(answers, 0, len(body)/maxChunk+1)
	for len(body) > 0 || end {
		n := min(len(body), maxChunk)
		last := n == len(body)
		out = append(out, wrap(&extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{
			BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
				StreamedResponse: &extprocv3.StreamedBodyResponse{Body: body[:n], EndOfStream: end && last},
			}},
		}}))
		if last {
			break
		}
		body = body[n:]
	}
	return out
}
