// Package extproc speaks Envoy's external-processing protocol: one gRPC stream per HTTP request, one state machine per
// body mode. It knows Envoy's messages and nothing of JSON or filters; what becomes of a body is the [Engine]'s word.
//
// The one rule: whatever goes wrong here, the request goes on as it came. tidemark never answers a request itself, never
// ends a stream with an error and never sends an answer that Envoy has to refuse. So every message gets exactly one answer
// of its own kind, in order; in full duplex the chunks of a body are answered by the chunks that replace it. (gRPC itself
// fails a stream whose message is above the receive limit, one MiB over [Options.MaxBody]: Envoy's failure_mode_allow is for
// that, and for a server that is gone.)
//
// # Body modes
//
//	BUFFERED              headers are answered, then the one body message; request_body without end_of_stream (trailers
//	                      follow) is a whole body too. A changed body carries its content-length in the same answer.
//	FULL_DUPLEX_STREAMED  chunks are collected, the body is answered in chunks of at most 62000 bytes; end_of_stream is on
//	                      the last one if no trailers came, else trailers are answered after it.
//	STREAMED, others      passed through and counted: a JSON document cannot be rewritten chunk by chunk.
//
// A request that is not tidemark's, which the [Admit] function says by its headers, does not wait: in BUFFERED mode the stream
// is ended with OK right after the headers, so that Envoy does not buffer; in full duplex every chunk is echoed as it comes.
//
// # Content codings
//
// A body in gzip, brotli or zstd is decoded for the engine ([coding.Coding.Decode] says when it is not). Where nothing changes
// the bytes that came go on; else the new body is encoded in the same coding, so that content-encoding stays true. Whatever is in
// doubt goes on as it came.
//
// # What was billed
//
// Once a request has been answered, the stream stays open for what Envoy sends of the response, and the engine is told once what
// became of it:
//
//	response trailers  with typed metadata envoy.ai.token_usage of Envoy's ai_protocol_manager, which tells neither the message's
//	                   id nor five-minute from one-hour writes: all are taken for the former.
//	response headers   a JSON or event-stream body that does not come anyway is asked for by mode_override, chunk by chunk; each is
//	                   answered at once and read aside. Where Envoy does not allow the override, only the status is known.
//	neither            nothing is known when the stream ends, nor is it of a response that breaks off.
//
// Both may come: a body that could be read wins. The last answer may wait a moment for the engine, so that access logs have its
// word.
//
// # Time
//
// The engine runs under [Options.Deadline], which belongs below Envoy's message_timeout (full duplex has none, so this is
// the only one there). An engine that is not back shortly after it is not waited for: the original is forwarded, the late
// outcome is dropped, and the loss is counted as a desync.
//
// # Ownership and concurrency
//
// A [Server] serves any number of streams at once. Bodies belong to the message they came in; the engine may read its body
// until it returns, also when nobody waits for it any more. No goroutine outlives a stream but that one and the one that tells
// the engine of a response.
package extproc
