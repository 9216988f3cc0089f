package openai

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// model holds what the simulator knows about a model: facts of the provider's documentation as of 2026-11-29.
type model struct {
	price  rate
	rho    float64 // price of a cache read in input tokens
	window int     // tokens that a prompt may have
	long   bool    // prompts above longPrompt cost more

	points   bool // caching by breakpoints, and a fee for writes: GPT-5.6 and later
	step     int  // without breakpoints: what a cached prefix is a multiple of, in tokens
	extended bool // takes prompt_cache_retention "24h"
	brief    bool // takes prompt_cache_retention "in_memory"
	noChat   bool // served by Responses only
}

// Windows of prompts: the context window less the longest answer.
const (
	windowWide  = 922_000
	windowPlain = 272_000
	windowOld   = 111_616
	window41    = 1_014_808
)

// Steps of the cache of models without breakpoints.
const (
	stepPlain = 128
	stepLarge = 2048 // GPT-5.5
)

// minimum is how many tokens a prefix needs to be cached.
const minimum = 1024

// catalogue lists the models by name.
var catalogue = map[string]model{
	"gpt-6.1-sol":        {price: rate{2, 10}, rho: 0.05, window: windowWide, long: true, points: true},
	"gpt-6-astra":        {price: rate{10, 50}, rho: 0.1, window: windowWide, long: true, points: true},
	"gpt-6-sol":          {price: rate{2, 10}, rho: 0.1, window: windowWide, long: true, points: true},
	"gpt-6-luna":         {price: rate{0.10, 0.50}, rho: 0.1, window: windowWide, long: true, points: true},
	"gpt-5.6-sol":        {price: rate{4, 20}, rho: 0.1, window: windowWide, long: true, points: true},
	"gpt-5.6-terra":      {price: rate{2, 12}, rho: 0.1, window: windowWide, long: true, points: true},
	"gpt-5.6-luna":       {price: rate{0.20, 1.20}, rho: 0.1, window: windowWide, long: true, points: true},
	"gpt-5.5":            {price: rate{5, 30}, rho: 0.1, window: windowWide, long: true, step: stepLarge, extended: true},
	"gpt-5.4":            {price: rate{2.5, 15}, rho: 0.1, window: windowWide, long: true, step: stepPlain, extended: true, brief: true},
	"gpt-5.4-mini":       {price: rate{0.75, 4.5}, rho: 0.1, window: windowPlain, step: stepPlain, brief: true},
	"gpt-5.4-nano":       {price: rate{0.20, 1.25}, rho: 0.1, window: windowPlain, step: stepPlain, brief: true},
	"gpt-5.3-codex":      {price: rate{1.75, 14}, rho: 0.1, window: windowPlain, step: stepPlain, extended: true, brief: true, noChat: true},
	"gpt-5.1-codex-mini": {price: rate{0.25, 2}, rho: 0.1, window: windowPlain, step: stepPlain, extended: true, brief: true, noChat: true},
	"gpt-5.2":            {price: rate{1.75, 14}, rho: 0.1, window: windowPlain, step: stepPlain, extended: true, brief: true},
	"gpt-5.1":            {price: rate{1.25, 10}, rho: 0.1, window: windowPlain, step: stepPlain, extended: true, brief: true},
	"gpt-5":              {price: rate{1.25, 10}, rho: 0.1, window: windowPlain, step: stepPlain, extended: true, brief: true},
	"gpt-5-mini":         {price: rate{0.25, 2}, rho: 0.1, window: windowPlain, step: stepPlain, brief: true},
	"gpt-5-nano":         {price: rate{0.05, 0.40}, rho: 0.1, window: windowPlain, step: stepPlain, brief: true},
	"gpt-4.1":            {price: rate{2, 8}, rho: 0.25, window: window41, step: stepPlain, extended: true, brief: true},
	"gpt-4o":             {price: rate{2.5, 10}, rho: 0.5, window: windowOld, step: stepPlain, brief: true},
	"gpt-4o-mini":        {price: rate{0.15, 0.60}, rho: 0.5, window: windowOld, step: stepPlain, brief: true},
}

// served lists the names of the models, sorted.
var served = slices.Sorted(maps.Keys(catalogue))

// dated is the end of the name of a snapshot.
var dated = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}$`)

// lookup returns the facts about a model, or false if no such model is served. A snapshot is its model; a Codex model costs
// what the model of its version costs.
func lookup(id string) (model, bool) {
	name := dated.ReplaceAllString(id, "")
	if m, known := catalogue[name]; known {
		return m, true
	}
	base, codex := name, false
	for _, end := range []string{"-codex", "-codex-max"} {
		if head, ok := strings.CutSuffix(name, end); ok {
			base, codex = head, true
		}
	}
	if head, ok := strings.CutSuffix(name, "-chat-latest"); ok {
		base = head
	}
	m, known := catalogue[base]
	if base == name || !known || codex && m.points {
		return model{}, false
	}
	m.noChat = codex
	return m, true
}
