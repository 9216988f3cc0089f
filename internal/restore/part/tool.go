package part

import "github.com/tidemark-dev/tidemark/pipeline/transcript"

// Name is the name of the tool that gives an original back. It is part of what models are shown, so it does not change.
const Name = transcript.RestoreTool

// Description says to a model what the tool is for.
const Description = "Gives back, byte for byte, what was left out of this transcript where a note " +
	"[tidemark … · id <24 hex>] stands: an earlier tool result, or a span of earlier messages. Use it when you need the exact " +
	"earlier content, for instance an output that cannot be had again. If you need a file as it is now, read the file instead: " +
	"what is on disk may be newer than what is given back here. Of a long text ask for a part: head or tail, from and to, or grep."

// Schema is the JSON schema of the tool's input. It uses only what the schemas of all providers know.
const Schema = `{"type":"object","properties":{` +
	`"id":{"type":"string","description":"The 24 hex digits behind the word id in the note"},` +
	`"head":{"type":"integer","description":"Only the first so many lines"},` +
	`"tail":{"type":"integer","description":"Only the last so many lines"},` +
	`"from":{"type":"integer","description":"Only from this line on, counted from 1"},` +
	`"to":{"type":"integer","description":"Only through this line"},` +
	`"grep":{"type":"string","description":"Only lines that match this RE2 pattern, with their numbers"},` +
	`"context":{"type":"integer","description":"With grep: so many lines around each match"},` +
	`"offset":{"type":"integer","description":"Begin at this byte of the text, to go on where an answer ended"},` +
	`"max_bytes":{"type":"integer","description":"At most so many bytes"}` +
	`},"required":["id"]}`

// What is said where nothing is given back. Each is the same whoever asks.
const (
	Missing     = "There is no original with this id here: it was never kept, or it has expired. Read the file or run the tool again."
	Sealed      = "This original is sealed: it is kept, but an operator has stopped it from being given back."
	Withdrawn   = "This original was withdrawn: its content has been deleted for good."
	Unavailable = "Originals cannot be read at the moment. Try again later."
)
