package routeconfig

import (
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Filter is what config needs to know of a filter. It has the shape of filters/all.Spec.
type Filter struct {
	Name    string
	Summary string
	Default func() any                               // a pointer to a fresh config struct with the default of every key
	Build   func(config any) (filters.Filter, error) // from such a pointer; the error starts with the key
}

// BuiltIn is the config that the server's default starts from.
func BuiltIn() map[string]any { return map[string]any{"pipeline": []any{"readlifecycle"}} }

// Keys are the keys of a route config besides those of the filters. Pipeline and Components are read by hand: what they
// accept depends on the filters and the named pipelines.
type Keys struct {
	Pipeline       any            `config:"pipeline" doc:"list of filters in the order in which they are asked, or the name of one of the server's pipelines; default is the server's default"`
	Components     map[string]any `config:"components" doc:"keys of the filters in the pipeline, by filter"`
	Mode           pipeline.Mode  `config:"mode" doc:"active, shadow (only meter what active would do) or off (not even replay); the narrower of this and the server's counts"`
	Binding        Binding        `config:"binding" doc:"model (the table of models says which bind thinking to the exact prefix) or legacy (this account's models accept edits)"`
	Tenant         Tenant         `config:"tenant" doc:"name of the tenant, or {header: name} of a header that the gateway sets; none: by the credential"`
	Resigned       bool           `config:"resigned" doc:"the gateway signs requests again, so bodies that the client signed may change"`
	SessionHeaders []string       `config:"session_headers" doc:"headers that may name the session, in order"`
}

// DefaultKeys are the values of keys that a route does not set.
func DefaultKeys() Keys {
	return Keys{Binding: BindingModel, SessionHeaders: identity.DefaultSessionHeaders()}
}

// Binding says which models are taken to bind thinking blocks to the exact prefix.
type Binding string

// Bindings.
const (
	BindingModel  Binding = "model"
	BindingLegacy Binding = "legacy"
)

// Tenant says where the tenant's name comes from; both fields are never set.
type Tenant struct {
	Name   string
	Header string `config:"header"`
}

// modeNames are the words of pipeline.Mode in its order.
var modeNames = []string{pipeline.Active.String(), pipeline.Shadow.String(), pipeline.Off.String()}

// ParseMode reads a mode by its word.
func ParseMode(word string) (pipeline.Mode, bool) {
	i := slices.Index(modeNames, word)
	return pipeline.Mode(max(i, 0)), i >= 0
}
