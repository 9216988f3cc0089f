package part

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Limits of what is asked.
const (
	maxInput   = 16 << 10 // bytes of a tool's input
	maxPattern = 1000     // bytes of a pattern
	maxContext = 50       // lines on each side of a match; more is cut to it
	maxNumber  = math.MaxInt32
)

// Ask is what is asked of an original. The zero value of a field asks for nothing; without any the whole is meant.
type Ask struct {
	ID       string
	Head     int    // the first lines
	Tail     int    // the last lines
	From, To int    // lines, counted from 1, both included; To 0: through the end
	Grep     string // lines that match this RE2 pattern, of those that the others name
	Context  int    // lines around each match
	Offset   int    // byte of the whole text at which to begin
	MaxBytes int    // the most that is wanted, in bytes; 0: all

	// Work bounds a search more tightly than the package does, in instructions of the pattern times bytes; 0: not. It is the
	// caller's: nobody asks for it.
	Work int
}

// ValidID reports whether an id has the form of one: 24 lower-case hex digits.
func ValidID(id string) bool { return transcript.IsID(id) }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// ParseJSON reads the input of the tool as models write it: numbers may be strings, members may be null or empty, the id may stand
// within brackets, quotes or the whole note, and the object may itself be a JSON string. Members that are not known are ignored.
// The id of what is returned is valid.
func ParseJSON(input []byte) (Ask, error) {
	var a Ask
	if len(input) > maxInput {
		return a, errors.New("the input is too long")
	}
	var inner string
	if json.Unmarshal(input, &inner) == nil {
		input = []byte(inner)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(input, &members) != nil {
		return a, errors.New("the input must be a JSON object with an id")
	}
	id, err := str(members["id"], "id")
	if err != nil {
		return a, err
	}
	if a.Grep, err = str(members["grep"], "grep"); err != nil {
		return a, err
	}
	for _, n := range a.numbers() {
		raw := strings.TrimSpace(string(members[n.name]))
		if s, err := str(members[n.name], n.name); err == nil {
			raw = strings.TrimSpace(s)
		}
		if *n.at, err = number(raw, n.name); err != nil {
			return a, err
		}
	}
	if a.ID, err = findID(id); err != nil {
		return a, err
	}
	err = a.check()
	return a, err
}

// ParseQuery reads the part that the query of a URL asks for. It is strict: a parameter that is not known or comes twice is an
// error. It says nothing of the id.
func ParseQuery(query url.Values) (Ask, error) {
	a := Ask{Grep: query.Get("grep")}
	known := 0
	if query.Has("grep") {
		known++
	}
	for _, n := range a.numbers() {
		if !query.Has(n.name) {
			continue
		}
		known++
		var err error
		if *n.at, err = number(query.Get(n.name), n.name); err != nil {
			return a, err
		}
	}
	if known != len(query) {
		return a, errors.New("there are the parameters head, tail, from, to, grep, context, offset, max_bytes and raw")
	}
	for name, values := range query {
		if len(values) != 1 {
			return a, fmt.Errorf("%s is given more than once", name)
		}
	}
	err := a.check()
	return a, err
}

type named struct {
	name string
	at   *int
}

func (a *Ask) numbers() []named {
	return []named{
		{"head", &a.Head},
		{"tail", &a.Tail},
		{"from", &a.From},
		{"to", &a.To},
		{"context", &a.Context},
		{"offset", &a.Offset},
		{"max_bytes", &a.MaxBytes},
	}
}

// str reads a member that should be a string; null and absent are empty.
func str(raw json.RawMessage, name string) (string, error) {
	var s string
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	return s, nil
}

// number reads a whole number. "To the last line" is often written as -1.
func number(s, name string) (int, error) {
	if s == "" || s == "null" || s == "-1" && name == "to" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f != math.Trunc(f) {
		return 0, fmt.Errorf("%s must be a whole number that is not negative", name)
	}
	return int(min(f, maxNumber)), nil
}

// findID finds the one id in what a model gives as the id.
func findID(s string) (string, error) {
	var found string
	for i := 0; i < len(s); {
		if !isHex(s[i]) {
			i++
			continue
		}
		end := i
		for end < len(s) && isHex(s[end]) {
			end++
		}
		if run := s[i:end]; ValidID(run) && run != found {
			if found != "" {
				return "", errors.New("id must be one id")
			}
			found = run
		}
		i = end
	}
	if found == "" {
		return "", errors.New("id must be the 24 hex digits that stand behind the word id in the note")
	}
	return found, nil
}

// check refuses what contradicts itself.
func (a *Ask) check() error {
	a.Context = min(a.Context, maxContext)
	switch {
	case a.Head > 0 && a.Tail > 0:
		return errors.New("give head or tail, not both")
	case (a.Head > 0 || a.Tail > 0) && (a.From > 0 || a.To > 0):
		return errors.New("give head or tail, or from and to, not both")
	case a.To > 0 && a.From > a.To:
		return errors.New("from must not be behind to")
	case len(a.Grep) > maxPattern:
		return fmt.Errorf("grep must not be longer than %d bytes", maxPattern)
	}
	return nil
}
