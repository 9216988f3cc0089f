package restore

import (
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Path is a way of getting an original back. The list is closed: it is a label of metrics.
type Path string

// Paths.
const (
	HTTP Path = "http"
	MCP  Path = "mcp"
)

// Result is what came of it. The list is closed: it is a label of metrics.
type Result string

// Results.
const (
	OK        Result = "ok"
	Miss      Result = "miss"
	Sealed    Result = "sealed"
	Withdrawn Result = "withdrawn"
	Refused   Result = "refused" // what was asked cannot be carried out, or the store is down
)

// Event is one attempt to get an original back.
type Event struct {
	Path   Path
	Result Result
	Filter string // whose decision had left it out; empty if nothing was given back
	Bytes  int    // of what was given back
	Tokens int    // of that, estimated
}

// Observer is told what was given back, from many goroutines, each time before the answer is complete: who has the answer finds it
// counted. Questions for what an original is like (HEAD, or whether it has changed) are no attempts.
type Observer interface {
	Restored(e Event)
}

// maxEst bounds the text that an estimate looks at, in bytes.
const maxEst = 1 << 20

// est estimates the tokens of n bytes of a text that begins like a sample of at most maxEst bytes.
func est(sample string, n int) int {
	sample = sample[:min(n, len(sample))]
	if sample == "" {
		return 0
	}
	return int(float64(transcript.Est(sample)) * float64(n) / float64(len(sample)))
}

// counter counts what is given back when the head of the answer is written, which says how long it is.
type counter struct {
	http.ResponseWriter
	count func(status, length int)
}

// WriteHeader implements [http.ResponseWriter].
func (c *counter) WriteHeader(status int) {
	length, err := strconv.Atoi(c.Header().Get("Content-Length"))
	if err != nil {
		length = 0
	}
	c.count(status, length)
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
