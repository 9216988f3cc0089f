package gemini

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Error is a refusal in Google's shape. Field is what a BadRequest in its details names, and Detailed says that it has one.
type Error struct {
	Status   int
	Message  string
	Field    string
	Detailed bool
}

func (e *Error) Error() string { return e.code() + ": " + e.Message }

// codes are Google's names of statuses.
var codes = map[int]string{
	400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
	499: "CANCELLED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}

func (e *Error) code() string {
	if code := codes[e.Status]; code != "" {
		return code
	}
	return "INTERNAL"
}

// violation is what is wrong with a field.
type violation struct {
	Field       string `json:"field,omitempty"`
	Description string `json:"description"`
}

// detail is a google.rpc.BadRequest.
type detail struct {
	Type       string      `json:"@type"`
	Violations []violation `json:"fieldViolations"`
}

// MarshalJSON writes the error as the provider does, without the object around it.
func (e *Error) MarshalJSON() ([]byte, error) {
	wire := struct {
		Code    int      `json:"code"`
		Message string   `json:"message"`
		Status  string   `json:"status"`
		Details []detail `json:"details,omitempty"`
	}{Code: e.Status, Message: e.Message, Status: e.code()}
	if e.Detailed {
		wire.Details = []detail{{"type.googleapis.com/google.rpc.BadRequest", []violation{{e.Field, e.Message}}}}
	}
	return json.Marshal(wire)
}

// refuse is an INVALID_ARGUMENT.
func refuse(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// unknown is the refusal of a member that the schema does not have.
func unknown(name, path string) *Error {
	at := ""
	if path != "" {
		at = " at '" + path + "'"
	}
	e := refuse("Invalid JSON payload received. Unknown name \"%s\"%s: Cannot find field.", name, at)
	e.Field, e.Detailed = path, true
	return e
}

// badValue is the refusal of a value of the wrong kind.
func badValue(path, kind string, got *simkit.Node) *Error {
	e := refuse("Invalid value at '%s' (%s), %s", path, kind, got.JSON(nil))
	e.Field, e.Detailed = path, true
	return e
}

// Kinds of values, in the provider's words.
const (
	aString  = "TYPE_STRING"
	aBool    = "TYPE_BOOL"
	aStruct  = "type.googleapis.com/google.protobuf.Struct"
	aMessage = "type.googleapis.com/google.ai.generativelanguage.v1beta."
)

func notJSON() *Error { return refuse("Invalid JSON payload received. Unexpected token.") }

func notFound() *Error {
	return &Error{Status: http.StatusNotFound, Message: "Requested entity was not found."}
}

func (e endpoint) noSuchModel() *Error {
	text := fmt.Sprintf("%s is not found for API version %s, or is not supported for %s. Call ListModels to see the list of available "+
		"models and their supported methods.", e.name, e.version, e.method)
	if e.vertex {
		text = fmt.Sprintf("Publisher Model `%s` was not found or your project does not have access to it. Please ensure you are using "+
			"a valid model version. For more information, see: https://cloud.google.com/vertex-ai/generative-ai/docs/learn/model-versions", e.name)
	}
	return &Error{Status: http.StatusNotFound, Message: text}
}

// unable is a refusal by Vertex.
func unable(why string) *Error {
	return refuse("Unable to submit request because %s. Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini", why)
}

// statuses are the texts of errors that a test asks for.
var statuses = map[int]string{
	400: "Request contains an invalid argument.",
	401: "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.",
	403: "The caller does not have permission",
	404: "Requested entity was not found.",
	429: "Resource has been exhausted (e.g. check quota).",
	500: "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting",
	503: "The model is overloaded. Please try again later.",
	504: "Deadline expired before operation could complete.",
}

// scripted is the error that x-sim-status asks for, nil without the header.
func scripted(h http.Header) *Error {
	status, err := simkit.Status(h)
	switch {
	case err != nil:
		return refuse("%s: %v", simkit.HeaderStatus, err)
	case status == 0:
		return nil
	}
	text := statuses[status]
	if text == "" {
		text = statuses[500]
	}
	return &Error{Status: status, Message: text}
}
