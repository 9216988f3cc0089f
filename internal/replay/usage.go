package replay

import (
	"encoding/json"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// usageRecord is one entry of a recording's usage.
type usageRecord struct {
	Msg      *int   `json:"msg"` // the message that it was billed with; some clients do not say
	TS       string `json:"ts"`
	Input    int    `json:"input_tokens"`
	Read     int    `json:"cache_read_input_tokens"`
	Write    int    `json:"cache_creation_input_tokens"`
	Output   int    `json:"output_tokens"`
	Creation struct {
		Hour int `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`

	// OpenAI's: Responses has the cached part beside input_tokens, Chat beside prompt_tokens.
	CachedInput *int `json:"cached_input_tokens"`
	Prompt      *int `json:"prompt_tokens"`
	Cached      int  `json:"cached_tokens"`
	Completion  int  `json:"completion_tokens"`
}

// recorded hands the usage that the recording holds to the requests that it was billed for.
func recorded(records []usageRecord, requests []Request) {
	inclusive := countsCached(records)
	for i := range records {
		r := &records[i]
		if q := r.request(requests); q != nil {
			q.Recorded = r.usage(inclusive)
		}
	}
}

func (s *session) records() (all []usageRecord) {
	for _, raw := range s.Usage {
		var r usageRecord
		if json.Unmarshal(raw, &r) == nil && gjson.ParseBytes(raw).IsObject() {
			all = append(all, r)
		}
	}
	return all
}

// request finds the request of a record: the one whose answer begins at or last before its message; without a message, the
// first that has no usage yet and was not answered before the record's time.
func (r *usageRecord) request(requests []Request) (found *Request) {
	at, err := time.Parse(time.RFC3339Nano, r.TS)
	for i := range requests {
		q := &requests[i]
		switch {
		case r.Msg != nil && q.n <= *r.Msg:
			found = q
		case r.Msg == nil && q.Recorded == nil && (err != nil || q.answered.IsZero() || !q.answered.Before(at)):
			return q
		}
	}
	return found
}

// countsCached reports whether the client counted cached tokens inside input_tokens, as some do.
func countsCached(records []usageRecord) bool {
	reads := 0
	for _, r := range records {
		if r.Read > 0 {
			if reads++; r.Input < r.Read+r.Write {
				return false
			}
		}
	}
	return reads > 0
}

func (r *usageRecord) usage(inclusive bool) *pipeline.Usage {
	switch {
	case r.Prompt != nil:
		return &pipeline.Usage{Input: max(0, *r.Prompt-r.Cached), Read: r.Cached, Output: r.Completion}
	case r.CachedInput != nil:
		return &pipeline.Usage{Input: max(0, r.Input-*r.CachedInput), Read: *r.CachedInput, Output: r.Output}
	}
	u := &pipeline.Usage{Input: r.Input, Read: r.Read, Write1h: min(r.Write, r.Creation.Hour), Output: r.Output}
	u.Write5m = r.Write - u.Write1h
	if inclusive {
		u.Input = max(0, r.Input-r.Read-r.Write)
	}
	return u
}
