// Package transcript reads request bodies of LLM agents: where messages, blocks, calls, results and breakpoints lie.
//
// [Parse] makes one pass over the bytes and records spans; it copies no text. What cannot be placed without doubt (invalid
// JSON, a known key twice in one object, hostile depth or size) is an error, and the body is then forwarded as it came.
// [Index.Digest] hashes blocks and messages so that equal content has equal digests wherever a breakpoint lies.
// Text, roles, paths and token estimates are worked out lazily, only for what a filter asks for.
//
// The body belongs to the caller and must not change while its Index is in use. An Index is not safe for concurrent use;
// [Index.Release] returns it to a pool. The package is a leaf: it imports nothing of ours.
package transcript
