package compress

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Types of errors.
const (
	typeInvalid  = "invalid_request"
	typeNotFound = "not_found"
	typeMethod   = "method_not_allowed"
	typeTooLarge = "too_large"
	typeMedia    = "unsupported_media_type"
	typeNoUsage  = "no_usage"
)

// untouched is the outcome of a request that the engine was not asked about.
const untouched = "untouched"

// figures are what every compressor of this contract says, in tokens by transcript.Est.
type figures struct {
	Before int `json:"tokens_before"` // of the list as it came, its JSON included
	After  int `json:"tokens_after"`
	Saved  int `json:"tokens_saved"`
	// Ratio is after to before; 1 if nothing is left out.
	Ratio   float64  `json:"compression_ratio"`
	Applied []string `json:"transforms_applied"` // filters whose decisions stand in the list
	About   *about   `json:"tidemark"`
}

// about is what tidemark says besides.
type about struct {
	ID      string         `json:"id,omitempty"` // for /v1/usage
	Outcome string         `json:"outcome"`      // as in metrics; untouched if the engine was not asked
	Gate    string         `json:"gate"`         // why nothing new was decided for the request as a whole
	Format  string         `json:"format"`
	Session string         `json:"session,omitempty"` // hash
	Cache   string         `json:"cache,omitempty"`   // what the provider is believed to hold: first, warm or cold
	Move    string         `json:"move,omitempty"`    // kind of the move that this request made
	New     int            `json:"new,omitempty"`     // decisions made by this request
	Gates   map[string]int `json:"gates,omitempty"`   // why results were left alone: filter:gate
}

// describe says what became of a request.
func describe(id string, o *pipeline.Outcome) *about {
	a := &about{
		ID: id, Outcome: o.Class(), Gate: string(o.Gate), Format: o.Format.String(), Session: o.Session, Cache: o.Cache.String(), New: len(o.New),
		Gates: map[string]int{},
	}
	if o.Move != nil {
		a.Move = o.Move.Kind
	}
	for g, n := range o.Gates {
		if g.Filter != "" {
			a.Gates[g.Filter+":"+string(g.Gate)] += n
		}
	}
	return a
}

// answer writes the list and what is said of it. out is nil if the engine was not asked.
func answer(w http.ResponseWriter, a *asked, list string, out *pipeline.Outcome, what *about) error {
	f := figures{Before: transcript.Est(a.list), Applied: []string{}, Ratio: 1, About: what}
	if out != nil && out.Body != nil {
		f.Saved = min(max(0, out.Tokens), f.Before)
		f.Applied = append(f.Applied, out.Applied...)
	}
	if f.After = f.Before - f.Saved; f.Saved > 0 {
		f.Ratio = math.Round(float64(f.After)/float64(f.Before)*1e4) / 1e4
	}
	tail, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	body := make([]byte, 0, len(list)+len(tail)+len(messages)+8)
	body = append(append(append(body, `{"`...), a.name...), `":`...)
	body = append(append(append(body, list...), ','), tail[1:]...)
	return access.Write(w, http.StatusOK, body)
}
