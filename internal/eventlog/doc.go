// Package eventlog reads files of events back: [Summarize] says what came of all requests together and of each session, [Explain]
// what was decided on the results of one request.
//
// Figures of different origin are never added: what the provider said is observed, what would have been without tidemark is
// modelled, what follows from bytes is estimated, what mode active would have done is shadow. The only sum of two is the net of a
// whole log, from which tidemark's own calls come off, and both stand beside it.
//
// A log may be a part of what happened: files that were removed, events that were dropped, lines that cannot be read. Nothing is
// made up for them; [Unread] counts the last. Start reading at [Read].
package eventlog
