package routeconfig

import (
	"fmt"
	"slices"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/identity"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// Filter is what config needs to know of a filter. It has the shape of filters/all.Spec.
type Filter struct {
	Name    string
	Summary string
	Default func() any                               // a pointer to a fresh config struct with the default of every key
	Build   func(config any) (filters.Filter, error) // from such a pointer; the error starts with the key
}

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
	Tools          []Tool         `config:"tools" doc:"what tools do that the built-in table does not know, or knows otherwise (docs/tools.md): name, role, path, from, to, command; the first that matches counts"`
	Anonymous      Anonymous      `config:"anonymous" doc:"what becomes of requests whose session nobody names: off (they pass untouched) or prefix (tenant and first two messages tell it for an hour, and what is left out cannot be restored)"`

	TTL         pipeline.TTL `config:"ttl" doc:"lifetime that breakpoints ask for: keep (as the client asks), 1h, auto (5 minutes, lifted to 1h where ttl_regret allows) or lift (auto, also where the client asks for 1h)"`
	TTLRegret   float64      `config:"ttl_regret" doc:"premium for lifts that a branch may have open, as a share of its bill at 5 minutes"`
	Place       Switch       `config:"place" doc:"set breakpoints where the client sets none at all"`
	Warm        Switch       `config:"warm" doc:"allow warm moves: cached parts of the prompt change where the price of the loss is paid back"`
	MinGainFrac float64      `config:"min_gain_frac" doc:"smallest gain of a warm move, as a share of the price of the whole prompt"`
	Budget      int          `config:"rewrite_budget" doc:"warm moves of one branch"`
	Spacing     int          `config:"min_turns_between_moves" doc:"turns between two warm moves of a branch"`
	Horizon     Horizon      `config:"horizon" doc:"calls that are expected to follow: calls (half of those seen on the branch) or a number"`

	RawGuard     Switch  `config:"raw_guard" doc:"near the model's context window decide nothing, so that the client compacts"`
	BeyondWindow Switch  `config:"beyond_window" doc:"near the model's context window move whatever it costs, for clients that do not compact"`
	Brake        Switch  `config:"brake" doc:"decide nothing new on a branch whose cache reads fall short without cause"`
	Inline       Switch  `config:"inline_restore" doc:"offer conversations, from their first request on, one more tool by which the model gets back what was left out (docs/restore.md); the client need not know of it"`
	Rollout      float64 `config:"rollout" doc:"share of sessions on which anything new is decided; the others are metered as in mode shadow, and replay what is in force"`
	Holdout      float64 `config:"holdout" doc:"share of sessions on which nothing new is decided or metered, whatever the rollout: the group that the others are compared with"`
	Diagnostics  float64 `config:"diagnostics" doc:"share of sessions that ask the Claude API why its cache missed, by a member diagnostics of their requests (docs/envoy.md); a 400 to one of those ends it on its route until the restart"`
}

// DefaultKeys are the values of keys that a route does not set.
func DefaultKeys() Keys {
	return Keys{
		Binding: BindingModel, Anonymous: AnonymousOff, SessionHeaders: identity.DefaultSessionHeaders(),
		TTLRegret:   0.01, // on recorded sessions lifts saved less with 5 %, and with 1 % none lost more than that
		MinGainFrac: 0.05, Budget: 3, Spacing: 8,
		RawGuard: true, Brake: true, Rollout: 1,
	}
}

// maxCount is far above any number of moves, turns or calls of a conversation.
const maxCount = 1_000_000

// validate checks values that have the right type.
func (k *Keys) validate() (problems Problems) {
	check := func(ok bool, key string, v any, accepted string) {
		if !ok {
			problems = append(problems, &Problem{Path: []string{key}, Text: fmt.Sprintf("%v is out of range", v), Accepted: []string{accepted}})
		}
	}
	share := func(key string, v float64) { check(v >= 0 && v <= 1, key, v, "0 to 1") }
	count := func(key string, v int) { check(v >= 0 && v <= maxCount, key, v, fmt.Sprintf("0 to %d", maxCount)) }
	share("ttl_regret", k.TTLRegret)
	share("min_gain_frac", k.MinGainFrac)
	count("rewrite_budget", k.Budget)
	count("min_turns_between_moves", k.Spacing)
	share("rollout", k.Rollout)
	share("holdout", k.Holdout)
	share("diagnostics", k.Diagnostics)
	return problems
}

// levers are the keys that change breakpoints.
func (k *Keys) levers() pipeline.Levers {
	return pipeline.Levers{TTL: k.TTL, Regret: k.TTLRegret, Place: bool(k.Place)}
}

// moves are the keys that say when covered bytes may change.
func (k *Keys) moves() pipeline.Moves {
	return pipeline.Moves{
		Warm: bool(k.Warm), MinGain: k.MinGainFrac, Budget: k.Budget, Spacing: k.Spacing, Horizon: int(k.Horizon),
		RawGuard: bool(k.RawGuard), BeyondWindow: bool(k.BeyondWindow), Brake: bool(k.Brake),
	}
}

// Switch is a key that is also written as on or off.
type Switch bool

// Horizon is a number of calls; 0 is written as calls.
type Horizon int

// horizonCalls is the word for half of the calls that were seen.
const horizonCalls = "calls"

// Binding says which models are taken to bind thinking blocks to the exact prefix.
type Binding string

// Bindings.
const (
	BindingModel  Binding = "model"
	BindingLegacy Binding = "legacy"
)

// Anonymous says what becomes of requests whose session nobody names.
type Anonymous string

// Ways with requests that name no session.
const (
	AnonymousOff    Anonymous = "off"
	AnonymousPrefix Anonymous = "prefix"
)

// Tenant says where the tenant's name comes from; both fields are never set.
type Tenant struct {
	Name   string
	Header string `config:"header"`
}

// Tool says what a tool does.
type Tool struct {
	Name    string              `config:"name" doc:"name of the tool; * and ? match as in file names, case does not matter"`
	Role    transcript.ToolRole `config:"role" doc:"read, edit, write, shell, search, list, browser or other"`
	Path    string              `config:"path" doc:"argument that names the file, or a list of files; else those that clients use"`
	From    string              `config:"from" doc:"argument of a read that says where it begins; else those that clients use"`
	To      string              `config:"to" doc:"argument of a read that says where it ends, or how much it reads; else those that clients use"`
	Command string              `config:"command" doc:"argument of a shell that holds the command; else those that clients use"`
}

// roles is the table of tools, nil if the route says nothing of them.
func (k *Keys) roles() (*transcript.RoleTable, Problems) {
	if len(k.Tools) == 0 {
		return nil, nil
	}
	rules := make([]transcript.RoleRule, len(k.Tools))
	var problems Problems
	for i, t := range k.Tools {
		rules[i] = transcript.RoleRule(t)
		if _, err := transcript.NewRoleTable(rules[i : i+1]); err != nil {
			problems = append(problems, &Problem{
				Path: []string{"tools", fmt.Sprintf("[%d]", i), "name"}, Text: fmt.Sprintf("%.40q is no pattern of names", t.Name),
			})
		}
	}
	if problems != nil {
		return nil, problems
	}
	table, err := transcript.NewRoleTable(rules)
	if err != nil {
		return nil, Problems{{Path: []string{"tools"}, Text: err.Error()}}
	}
	return table, nil
}

// modeNames are the words of pipeline.Mode in its order, roleNames those of transcript.ToolRole, ttlNames those of pipeline.TTL.
var (
	modeNames = []string{pipeline.Active.String(), pipeline.Shadow.String(), pipeline.Off.String()}
	roleNames = []string{
		transcript.OtherTool.String(), transcript.Read.String(), transcript.Edit.String(), transcript.Write.String(),
		transcript.Shell.String(), transcript.Search.String(), transcript.List.String(), transcript.Browser.String(),
	}
	ttlNames = []string{pipeline.KeepTTL.String(), pipeline.HourTTL.String(), pipeline.AutoTTL.String(), pipeline.LiftTTL.String()}
)

// ParseMode reads a mode by its word.
func ParseMode(word string) (pipeline.Mode, bool) {
	i := slices.Index(modeNames, word)
	return pipeline.Mode(max(i, 0)), i >= 0
}
