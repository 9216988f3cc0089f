package bedrock

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/simkit"
)

// Error is a refusal in Bedrock's shape: Type is that of x-amzn-errortype.
type Error struct {
	Status  int    `json:"-"`
	Type    string `json:"-"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

const validation = "ValidationException"

// invalid is a ValidationException.
func invalid(format string, args ...any) *Error {
	return &Error{http.StatusBadRequest, validation, fmt.Sprintf(format, args...)}
}

// constraint is a ValidationException of Bedrock's own schema.
func constraint(value, path, want string) *Error {
	return invalid("1 validation error detected: Value %s at '%s' failed to satisfy constraint: Member must %s", value, path, want)
}

func missing(path string) *Error { return constraint("null", path, "not be null") }

func notOneOf(value, path, set string) *Error {
	return constraint("'"+value+"'", path, "satisfy enum value set: ["+set+"]")
}

// kinds are what Bedrock calls values that stand where others are wanted.
var kinds = map[byte]string{'{': "START_OBJECT", '[': "START_ARRAY", 's': "STRING_VALUE", 'n': "NUMBER_VALUE", 'l': "TRUE_VALUE"}

// serialization is the refusal of a value of the wrong kind.
func serialization(got *simkit.Node, want string) *Error {
	return &Error{http.StatusBadRequest, "SerializationException", kinds[got.Kind] + " can not be converted to " + want}
}

// syntax is the refusal of what is no JSON object.
func (e endpoint) syntax() *Error {
	if e.api == invoke {
		return invalid("Malformed input request, please reformat your input and try again.")
	}
	return &Error{http.StatusBadRequest, "SerializationException", "Unable to parse the request body as JSON."}
}

func tooLarge() *Error {
	return invalid("1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have length less than or equal to %d", maxBody)
}

func unknownOperation() *Error {
	return &Error{http.StatusNotFound, "UnknownOperationException", "Unable to determine service/operation name to be authorized"}
}

// said is how Converse begins what the model says is wrong with a request.
const said = "The model returned the following errors: "

// refuse is a refusal by the model.
func (e endpoint) refuse(format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	if e.api == converse {
		text = said + text
	}
	return invalid("%s", text)
}

// modelError is what becomes of an error of the model.
func (e endpoint) modelError(err *simprovider.Error) *Error {
	if strings.HasPrefix(err.Message, simkit.HeaderReply) {
		return invalid("%s", err.Message)
	}
	return e.refuse("%s", err.Message)
}

// byStatus are Bedrock's errors.
var byStatus = map[int]struct{ kind, text string }{
	400: {validation, "Invalid request."},
	401: {"UnrecognizedClientException", "The security token included in the request is invalid."},
	403: {"AccessDeniedException", "You don't have access to the model with the specified model ID."},
	404: {"ResourceNotFoundException", "Could not resolve the foundation model from the provided model identifier."},
	408: {"ModelTimeoutException", "Model has timed out in processing the request. Try your request again."},
	424: {"ModelErrorException", "The system encountered an unexpected error during processing. Try your request again."},
	429: {"ThrottlingException", "Too many requests, please wait before trying again."},
	503: {"ServiceUnavailableException", "Bedrock is unable to process your request."},
}

// scripted is the error that x-sim-status asks for, nil without the header.
func scripted(h http.Header) *Error {
	status, err := simkit.Status(h)
	switch {
	case err != nil:
		return invalid("%s: %v", simkit.HeaderStatus, err)
	case status == 0:
		return nil
	}
	if e, ok := byStatus[status]; ok {
		return &Error{status, e.kind, e.text}
	}
	return &Error{status, "InternalServerException", "The system encountered an unexpected error during processing. Try your request again."}
}
