package vectors

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// Position is a block of a message; both count from 0.
type Position struct{ Message, Block int }

const positionForm = "messages.%d.content.%d"

// String is the position as a path: messages.2.content.0.
func (p Position) String() string { return fmt.Sprintf(positionForm, p.Message, p.Block) }

// Breakpoint is a body with blocks to be held out of the cache, and the breakpoints that its outbound must have.
type Breakpoint struct {
	Case
	Body    []byte
	Held    []Position // of the held results' blocks
	Gate    string     // why the hold is declined; empty if it is made
	Markers []string   // of the outbound, as [Markers] lists them
}

// Breakpoints returns the cases of moving breakpoints before held reads.
func Breakpoints() ([]Breakpoint, error) {
	form := Form{Headers: []string{"held", "gate"}, Sections: []string{"body.json", "markers"}}
	return lifecycle("breakpoint", form, func(f *File) (c Breakpoint, err error) {
		c = Breakpoint{Case: caseOf(f), Gate: f.Header["gate"]}
		for word := range strings.FieldsSeq(f.Header["held"]) {
			var at Position
			if _, err := fmt.Sscanf(word, positionForm, &at.Message, &at.Block); err != nil || at.String() != word {
				return c, fmt.Errorf("%s: header held: %q is no position", f.Path, word)
			}
			c.Held = append(c.Held, at)
		}
		if _, ok := f.Sections["markers"]; !ok {
			return c, fmt.Errorf("%s: section markers is missing", f.Path)
		}
		if s := f.Sections["markers"]; s != "" {
			c.Markers = strings.Split(s, "\n")
		}
		c.Body, err = f.need("body.json")
		return c, err
	})
}

// Markers lists the breakpoints of an Anthropic body in the provider's order, one line each: the position and its TTL,
// "messages.2.content.0 5m". A nested one has the position of the block that carries it.
func Markers(body []byte) (found []string) {
	root := gjson.ParseBytes(body)
	for _, area := range []string{"tools", "system", "messages"} {
		found = markersIn(found, area, root.Get(area))
	}
	return markersIn(found, "", gjson.Parse(`{"cache_control":`+orNull(root.Get("cache_control").Raw)+`}`))
}

func orNull(raw string) string {
	if raw == "" {
		return "null"
	}
	return raw
}

func markersIn(found []string, at string, v gjson.Result) []string {
	switch {
	case v.IsArray():
		for i, e := range v.Array() {
			found = markersIn(found, fmt.Sprintf("%s.%d", at, i), e)
		}
	case v.IsObject():
		v.ForEach(func(key, e gjson.Result) bool {
			if key.Str == "content" {
				found = markersIn(found, at+".content", e)
			}
			return true
		})
		if m := v.Get("cache_control"); m.IsObject() {
			ttl := m.Get("ttl").Str
			if ttl == "" {
				ttl = "5m"
			}
			found = append(found, strings.TrimSpace(at+" "+ttl))
		}
	}
	return found
}
