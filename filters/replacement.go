package filters

import "github.com/tidemark-dev/tidemark/pipeline/transcript"

// MinGain is how many tokens a replacement must save at least.
const MinGain = 20

// Replacement is what is forwarded in a result's place.
type Replacement struct {
	Content      []byte // the JSON value, see [transcript.Result.Replacement]
	Tokens       int    // of the result's text, estimated
	MarkerTokens int    // of the marker, estimated
}

// Replacement writes what a Replace asks for, or says why not: NonTextBlocks or MarkerNoGain. A replacement is never larger: it
// saves at least MinGain tokens, and bytes too, of the text and of the JSON.
func (p *Proposal) Replacement(ix *transcript.Index, back Back) (Replacement, Gate) {
	r := &ix.Results[p.Result]
	if r.Form != transcript.StringForm && r.Form != transcript.TextForm || r.Call < 0 {
		return Replacement{}, NonTextBlocks
	}
	tokens := ix.ResultTokens(p.Result)
	marker := Marker(ix, p, tokens, back)
	n := Replacement{Content: ix.Replacement(r, marker), Tokens: tokens, MarkerTokens: transcript.Est(marker)}
	if n.Tokens-n.MarkerTokens < MinGain || !ix.Longer(r, len(marker)) || len(n.Content) >= r.Content.Len() {
		return Replacement{}, MarkerNoGain
	}
	return n, ""
}
