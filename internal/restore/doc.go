// Package restore gives originals back: over HTTP, and to models as tools of an MCP server. It also has what an operator can do with
// originals, which is to list, withdraw and seal them, but not to read them. docs/restore.md says it for users.
//
// [Server.Handler] is for the restore listener, [Server.Operator] for the admin listener; whoever mounts them sees to TLS, bearer
// tokens, rate limits, timeouts and the size of headers before they are asked.
//
// It promises that the id of an original is all it takes to get it, and that nobody without the id learns anything: ids that are
// malformed, unknown, expired or evicted and those of another tenant get the same answer, byte for byte. Text comes back as the tool
// gave it, and parts as they stand in it. No content, no session id, no credential and no more of an id than its first six digits is
// ever logged or stands in an error.
//
// A [Server] is safe for concurrent use. Of large originals it holds few at a time, each once.
package restore
