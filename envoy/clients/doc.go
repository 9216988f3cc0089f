// Package clients holds tests that run real coding agents through a real Envoy with tidemark: Claude Code, Codex CLI and
// opencode, each in a version of its own, installed from npm once per machine. It has no code of its own.
//
// The simulated provider plays the model. A script tells it what to answer, and some answers depend on what it was sent, so
// that a result which arrived in another form shows in the client's files and last words. Every client does its task twice, on
// a route that passes tidemark by and on one that does not. In another session, with what docs/restore.md tells users to write into
// its config, its model asks for what was left out.
package clients
