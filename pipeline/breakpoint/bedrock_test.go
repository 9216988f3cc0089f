package breakpoint

import (
	"slices"
	"testing"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

func TestBedrockModels(t *testing.T) {
	for model, want := range map[string][2]bool{ // takes markers, takes a ttl
		"anthropic.claude-sonnet-4-5-20250929-v1:0":                     {true, true},
		"us.anthropic.claude-opus-4-6-v1":                               {true, true},
		"global.anthropic.claude-haiku-4-5":                             {true, true},
		"anthropic.claude-sonnet-5":                                     {true, true},
		"eu.anthropic.claude-fable-5-1-v1:0":                            {true, true},
		"anthropic.claude-opus-4-10-v1:0":                               {true, true},
		"anthropic.claude-opus-4-20250514-v1:0":                         {true, false},
		"us.anthropic.claude-opus-4-1-20250805-v1:0":                    {true, false},
		"us.anthropic.claude-3-7-sonnet-20250219-v1:0":                  {true, false},
		"anthropic.claude-3-5-haiku-20241022-v1:0":                      {true, false},
		"anthropic.claude-3-5-sonnet-20240620-v1:0":                     {false, false},
		"anthropic.claude-instant-v1":                                   {false, false},
		"amazon.nova-pro-v1:0":                                          {false, false},
		"meta.llama3-70b-instruct-v1:0":                                 {false, false},
		"arn:aws:bedrock:us-east-1:1:application-inference-profile/abc": {false, false},
		"": {false, false},
	} {
		ix := &transcript.Index{Format: transcript.Converse, Top: transcript.Top{Model: model}}
		if got := [2]bool{takesMarkers(ix), takesTTL(ix)}; got != want {
			t.Errorf("%q: %v, want %v", model, got, want)
		}
		if ix.Format = transcript.Anthropic; !takesMarkers(ix) || !takesTTL(ix) {
			t.Errorf("%q takes no markers outside of Bedrock", model)
		}
		if ix.Bedrock = true; [2]bool{takesMarkers(ix), takesTTL(ix)} != want { // by InvokeModel
			t.Errorf("%q by InvokeModel: %t and %t, want %v", model, takesMarkers(ix), takesTTL(ix), want)
		}
	}
}

const converse = `{"system":[{"text":"s"}],"toolConfig":{"tools":[{"toolSpec":{"name":"f"}}]},"messages":[` +
	`{"role":"user","content":[{"text":"a"},{"document":{}},{"cachePoint":{"type":"default","ttl":"1h"}}]},` +
	`{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"f","input":{}}},{"reasoningContent":{}}]},` +
	`{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"x"},{"cachePoint":{"type":"default"}}]}},{"cachePoint":{"type":"default"}},{"image":{}},{"text":"b"}]}]}`

// Of all edits that put one of our texts in the place of some bytes, IsEdit accepts these and no others.
func TestPointEdits(t *testing.T) {
	texts := []string{"", Point(short), Point(long), Text(short), longTTL, shortTTL, "," + ttlKey + longTTL, ttlKey + longTTL}
	for model, want := range map[string][]string{
		"anthropic.claude-opus-4-6-v1": {
			`{"text":"a"}` + "+" + Point(short), `{"text":"a"}` + "+" + Point(long),
			`,{"cachePoint":{"type":"default","ttl":"1h"}}-`,
			`"ttl":"1h"` + "→" + `"ttl":"5m"`,
			`"input":{}}}+` + Point(short), `"input":{}}}+` + Point(long),
			`"default"+,"ttl":"1h"`, `,{"cachePoint":{"type":"default"}}-`, `"default"+,"ttl":"1h"`,
			`{"text":"b"}` + "+" + Point(short), `{"text":"b"}` + "+" + Point(long),
		},
		"amazon.nova-pro-v1:0": {
			`{"text":"a"}` + "+" + Point(short), `{"text":"a"}` + "+" + Point(long),
			`,{"cachePoint":{"type":"default","ttl":"1h"}}-`,
			`"input":{}}}+` + Point(short), `"input":{}}}+` + Point(long),
			`,{"cachePoint":{"type":"default"}}-`,
			`{"text":"b"}` + "+" + Point(short), `{"text":"b"}` + "+" + Point(long),
		},
	} {
		ix, err := transcript.Parse([]byte(converse), transcript.Converse)
		if err != nil {
			t.Fatal(err)
		}
		ix.Model = model
		var got []string
		for lo := range uint32(len(converse)) {
			for hi := lo; hi <= uint32(len(converse)); hi++ {
				for _, text := range texts {
					if !IsEdit(ix, Edit{transcript.Span{Lo: lo, Hi: hi}, text}) {
						continue
					}
					switch what := converse[lo:hi]; {
					case text == "":
						got = append(got, what+"-")
					case what != "":
						got = append(got, `"ttl":`+what+"→"+`"ttl":`+text)
					default:
						got = append(got, converse[:lo]+"+"+text)
					}
				}
			}
		}
		same := slices.EqualFunc(got, want, func(g, w string) bool { return len(g) >= len(w) && g[len(g)-len(w):] == w })
		if !same {
			t.Errorf("%s: %q, want endings %q", model, got, want)
		}
		ix.Release()
	}
}

// Placed markers are points, where the model is known to take them.
func TestPlacePoints(t *testing.T) {
	body := `{"system":[{"text":"s"},{"guardContent":{}}],"messages":[{"role":"user","content":[{"text":"a"},{"document":{}}]}]}`
	for model, want := range map[string]string{
		"anthropic.claude-opus-4-6-v1": `{"system":[{"text":"s"},{"cachePoint":{"type":"default"}},{"guardContent":{}}],` +
			`"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":{"type":"default"}},{"document":{}}]}]}`,
		"meta.llama3-70b-instruct-v1:0": body,
	} {
		ix, err := transcript.Parse([]byte(body), transcript.Converse)
		if err != nil {
			t.Fatal(err)
		}
		ix.Model = model
		plan, err := Decide(&Input{Index: ix, Frontier: -1, Place: true})
		if err != nil {
			t.Fatal(err)
		}
		out, at := "", uint32(0)
		for _, e := range plan.Edits {
			out, at = out+body[at:e.Span.Lo]+e.Text, e.Span.Hi
		}
		if out += body[at:]; out != want {
			t.Errorf("%s: %s, want %s", model, out, want)
		}
		ix.Release()
	}
}
