package doctor

import (
	"strings"

	"github.com/tidemark-dev/tidemark/internal/check"
)

// What is enough money to judge by.
const (
	enoughUSD    = 1.0     // of the observed bill
	enoughTokens = 200_000 // of billed prompts, to say that a cache is never used
	muchLost     = 0.05    // of the bill
	ownLoss      = 0.02    // of the bill, to what tidemark itself does
)

// losses are the causes of cache losses that somebody can do something about, and what. Settings of clients come first: they
// save what no filter can.
var losses = []struct{ cause, rule, what, fix string }{
	{
		"client_system", "client-system", "clients change their system prompt within a session",
		"keep what changes (date, git status, memory) out of the system prompt; Claude Code in scripts: --exclude-dynamic-system-prompt-sections",
	},
	{
		"client_tools", "client-tools", "clients change their tools within a session",
		"connect MCP servers before the first message and leave them connected; do not switch between modes that have other tools",
	},
	{
		"client_model", "client-model", "clients change the model within a session",
		"choose the model before the first message; each model has a cache of its own",
	},
	{
		"client_history", "client-history", "clients change messages that they had sent",
		"let tidemark do the pruning: opencode compaction: {prune: false}; compact by hand between tasks, not within one",
	},
	{
		"ttl", "ttl", "caches lapse while users pause",
		"ttl: auto on the route (presets lossless and default have it), or an hour by the client: Claude Code's setting promptCacheTtl: 1h",
	},
	{
		"provider", "provider", "the provider forgets what it should hold",
		"send a session always to the same account, region and deployment: providers cache in each apart",
	},
}

// judgeMoney looks at what the provider billed.
func (d *doctor) judgeMoney() {
	d.judgeReads()
	bill := d.metrics.sum("cost_usd_total", "basis", "observed")
	if bill < enoughUSD {
		return
	}
	lifted := d.metrics.sum("breakpoints_total", "action", "ttl_raised") > 0
	for _, l := range losses {
		lost := d.metrics.sum("cache_lost_usd_total", "cause", l.cause)
		if lost < muchLost*bill || l.cause == "ttl" && lifted {
			continue
		}
		d.found(check.Warning, l.rule, `tidemark_cache_lost_usd_total{cause="`+l.cause+`"}`+since, l.fix, "%s: that cost %.2f USD, %.0f %% of the observed bill", l.what, lost, 100*lost/bill)
	}
	if lost := d.metrics.sum("cache_lost_usd_total", "cause", "tidemark"); lost > ownLoss*bill {
		by := d.metrics.by("cache_lost_usd_total", "filter", "cause", "tidemark")
		d.found(check.Warning, "tidemark-losses", `tidemark_cache_lost_usd_total{cause="tidemark"}`+since, "take the filter out of the pipeline, or warm: false; the preset lossless removes nothing",
			"tidemark's own changes lost caches worth %.2f USD, %.0f %% of the observed bill, most with %s", lost, 100*lost/bill, oneLine([]byte(strings.Join(most(by, 2), ", "))))
	}
	if net := d.metrics.sum("net_saved_usd"); net < 0 {
		d.found(check.Warning, "net-negative", "tidemark_net_saved_usd"+since, "preset lossless, or mode: shadow on the routes that lose; then the dashboard Is it worth it, row What the cache loses",
			"tidemark has cost %.2f USD more than it saved, of a bill of %.2f USD%s", -net, bill, d.losers())
	}
}

// losers names the routes whose net is negative.
func (d *doctor) losers() string {
	by := d.metrics.by("net_saved_usd", "route")
	for route, v := range by {
		by[route] = -v
	}
	names := most(by, 5)
	if len(names) == 0 {
		return ""
	}
	return "; routes that lose: " + oneLine([]byte(strings.Join(names, ", ")))
}

// judgeReads looks at routes whose prompts are never read from a cache.
func (d *doctor) judgeReads() {
	unread, cached := map[string]float64{}, map[string]float64{}
	for _, tier := range []string{"cache_read", "cache_write_5m", "cache_write_1h"} {
		for route, n := range d.metrics.by("billed_tokens_total", "route", "tier", tier) {
			cached[route] += n
		}
	}
	for route, n := range d.metrics.by("billed_tokens_total", "route", "tier", "input") {
		if n >= enoughTokens && cached[route] == 0 {
			unread[route] = n
		}
	}
	if len(unread) > 0 {
		d.found(check.Warning, "no-breakpoints", "tidemark_billed_tokens_total"+since, "place: true on the route sets breakpoints where a client of Anthropic's or Converse's format sends none; better, have the client send cache_control (one that does not know a model by its alias sends none). Where providers cache by themselves, look for what changes in the first thousand tokens of the prompt",
			"on route %s nothing was ever written to a cache or read from one: every turn pays the whole transcript", oneLine([]byte(strings.Join(most(unread, 5), ", "))))
	}
}
