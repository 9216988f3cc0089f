// Package transcript reads request bodies of LLM agents: where messages, blocks, calls, results and breakpoints lie.
//
// [Parse] makes one pass over the bytes and records spans; it copies no text. What cannot be placed without doubt (invalid
// JSON, a known key twice in one object, however it is escaped, hostile depth or size) is an error, and the body is then
// forwarded as it came. Errors say what and where, never what stood there.
//
// [Index.Digest] hashes blocks and messages so that equal content has equal digests wherever a breakpoint lies: every
// cache_control is left out with one adjoining comma, a null one too, and so is every cachePoint of Bedrock Converse, which is an
// element of its own; string content hashes like a list of one text block; thinking counts in no message, and neither the
// attribution block nor deferred tools in the key. Any other byte of a block counts, and so does what a message holds besides
// role and content. Bytes between blocks and the order of the outermost members do not.
//
// Text, roles, paths and token estimates ([Est]) are worked out lazily, only for what a filter asks for. They are for
// looking at: what is forwarded or hashed is always the raw span.
//
// The body belongs to the caller and must not change while its Index is in use; strings and spans alias it. An Index is
// not safe for concurrent use; [Index.Release] returns it to a pool, after which nothing of it may be used. Parse and
// Digest take time and memory in proportion to the body, whatever its shape, and allocate next to nothing once the pool is
// warm. The package is a leaf: it imports nothing of ours.
package transcript
