// Package replay drives the engine with recorded sessions, in the recording's own time.
//
// [Open] reads a session file (one JSON object, gzipped: api, model, system, tools, messages, ts and usage) or a folder of
// captured requests (NNN.body.json and NNN.head.json). [Run] sends its requests through an engine of its own, as a client
// would have sent them, and can write every body before and after for an independent judge.
package replay
