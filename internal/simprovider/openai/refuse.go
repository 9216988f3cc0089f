package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Error is a refusal in the provider's shape. Where Param or Code is empty the provider says null.
type Error struct {
	Status  int
	Message string
	Type    string
	Param   string
	Code    string
}

func (e *Error) Error() string {
	code := e.Type
	if e.Code != "" {
		code += " (" + e.Code + ")"
	}
	return code + ": " + e.Message
}

// MarshalJSON writes the error as the provider does.
func (e *Error) MarshalJSON() ([]byte, error) {
	wire := struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}{Message: e.Message, Type: e.Type}
	if e.Param != "" {
		wire.Param = &e.Param
	}
	if e.Code != "" {
		wire.Code = &e.Code
	}
	return json.Marshal(wire)
}

// refuse is a 400.
func refuse(param, code, format string, args ...any) *Error {
	return &Error{
		Status: http.StatusBadRequest, Type: "invalid_request_error", Param: param, Code: code, Message: fmt.Sprintf(format, args...),
	}
}

// Codes of refusals.
const (
	codeMissing     = "missing_required_parameter"
	codeType        = "invalid_type"
	codeValue       = "invalid_value"
	codeUnknown     = "unknown_parameter"
	codeEmpty       = "empty_array"
	codeUnsupported = "unsupported_parameter"
)

// flaw is what is wrong with a part of a body; path is relative to the part. The words are before, the path in quotes and
// after; without before the path is no part of them.
type flaw struct{ path, code, before, after string }

// at makes a refusal of a flaw in the part at path.
func (f *flaw) at(path string) *Error {
	path = strings.TrimPrefix(path+f.path, ".")
	if f.before == "" {
		return refuse(path, f.code, "%s", f.after)
	}
	return refuse(path, f.code, "%s'%s'%s", f.before, path, f.after)
}

func missing(path string) *flaw { return &flaw{path, codeMissing, "Missing required parameter: ", "."} }

func unknown(path string) *flaw { return &flaw{path, codeUnknown, "Unknown parameter: ", "."} }

func empty(path string) *flaw {
	return &flaw{path, codeEmpty, "Invalid ", ": empty array. Expected an array with minimum length 1, but got an empty array instead."}
}

func unsupported(path string) *flaw {
	return &flaw{path, codeUnsupported, "Unsupported parameter: ", " is not supported with this model."}
}

func badType(path, want string, got *simkit.Node) *flaw {
	return &flaw{path, codeType, "Invalid type for ", fmt.Sprintf(": expected %s, but got %s instead.", want, kindOf(got))}
}

func badValue(path, got string, supported ...string) *flaw {
	return &flaw{path, codeValue, "", fmt.Sprintf("Invalid value: '%s'. Supported values are: %s.", got, quoted(supported))}
}

// quoted lists names as the provider does: 'a', 'b', and 'c'.
func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "'" + name + "'"
	}
	switch n := len(list); n {
	case 0, 1:
		return strings.Join(list, "")
	case 2:
		return list[0] + " and " + list[1]
	default:
		return strings.Join(list[:n-1], ", ") + ", and " + list[n-1]
	}
}

// What a value should be, in the provider's words.
const (
	aString  = "a string"
	anObject = "an object"
	anArray  = "an array"
)

func kindOf(n *simkit.Node) string {
	switch n.Kind {
	case 's':
		return aString
	case '{':
		return anObject
	case '[':
		return anArray
	case 'n':
		if strings.ContainsAny(n.Text, ".eE") {
			return "a decimal"
		}
		return "an integer"
	}
	if n.Text == "null" {
		return n.Text
	}
	return "a boolean"
}

// wants checks that an object has a member of a kind.
func wants(n *simkit.Node, path, name string, kind byte) *flaw {
	value := n.Get(name)
	path += "." + name
	switch {
	case value == nil:
		return missing(path)
	case value.Kind == kind:
		return nil
	}
	return badType(path, map[byte]string{'s': aString, '{': anObject, '[': anArray}[kind], value)
}

// strays are members for the cache that stand only in some places, and those of another provider nowhere.
var strays = []string{breakpoint, "cache_control"}

// breakpoint is the member that marks the end of a prefix to cache.
const breakpoint = "prompt_cache_breakpoint"

// stray refuses members for the cache where none may stand.
func stray(n *simkit.Node, path string) *flaw {
	for _, name := range n.Names {
		if slices.Contains(strays, name) {
			return unknown(path + "." + name)
		}
	}
	return nil
}
