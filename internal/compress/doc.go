// Package compress is tidemark's second door: POST /v1/compress, for gateways that call no external processor. A gateway sends
// the messages of a request before it sends them to the provider, and forwards those that it gets back. The contract is the one
// that other compressors have made common: {messages, model} → {messages, tokens_before, tokens_after, …}; docs/compress.md says it
// in full.
//
// It promises that whoever sends a list gets a list that the provider accepts as it would have accepted that one. Whatever is not
// decided comes back byte for byte, and what cannot be read, is too late or goes wrong comes back whole. What was returned once is
// taken for cached from then on, for an hour or as long as the provider may hold it: this door does not see what the gateway adds,
// nor what became of the request. Nothing that stays has another cache_control than what came.
//
// POST /v1/usage takes the provider's answer, without which nothing is ever certain.
//
// A [Server] is safe for concurrent use. It keeps no body. Errors and logs quote none.
package compress
