// Package replay drives the engine with recorded sessions, in the recording's own time, and bills what it forwards.
//
// [Open] reads a session file (one JSON object, gzipped: api, model, system, tools, messages, ts and usage) or a folder of
// captured requests (NNN.body.json and NNN.head.json), in Anthropic's format or one of OpenAI's. [Run] sends its requests as
// a client would have sent them: once as they are, and once under each policy through an engine of its own. Every way has a
// simulated provider of its own, whose usage goes back to the engine. A [Report] compares the bills, and says what was done,
// what moves promised and brought, and how much of what was removed was used again later. [Explain] says why, for one
// request; [SVG] draws a session. [ScoreSession] bills nothing: it counts how often the filter coref cuts what a session
// uses later.
//
// Bills are modelled. A session starts with a cold cache that nobody else uses, entries live exactly as long as documented,
// and the model answers as it did in the recording, whatever was removed. Tokens are the recording's own: see [Calibration].
// The bill of pass-through is compared with the recorded one, so that a reader can tell how far the model is to be trusted.
//
// Bodies are made one at a time, and nothing of a session is kept but figures, identifiers and what the simulator parsed.
package replay
