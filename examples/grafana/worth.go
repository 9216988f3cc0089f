package grafana

// Parts of queries. Costs are counters of two bases: what was billed, and what would have been without tidemark. What was left
// out and needed again has a modelled price of its own.
const (
	baseline = `sum(increase(tidemark_cost_usd_total{basis="baseline",{R}}[$range]))`
	billed   = `sum(increase(tidemark_cost_usd_total{basis="observed",{R}}[$range]))`
	reused   = `(sum(increase(tidemark_reuse_usd_total{{R}}[$range])) or vector(0))`
	own      = `(sum(increase(tidemark_own_cost_usd_total[$range])) or vector(0))`
	routeNet = `3600 * (sum by (route) (rate(tidemark_cost_usd_total{basis="baseline",{R}}[$range])) - sum by (route) (rate(tidemark_cost_usd_total{basis="observed",{R}}[$range]))` +
		` - (sum by (route) (rate(tidemark_reuse_usd_total{{R}}[$range])) or 0 * sum by (route) (rate(tidemark_cost_usd_total{basis="observed",{R}}[$range]))))`
	netSaved = baseline + ` - ` + billed + ` - ` + reused + ` - ` + own
)

// worth is the dashboard Is it worth it.
func worth() []row {
	return []row{worthNet(), worthCauses(), worthShares(), worthRemoved(), worthSessions(), worthCompared()}
}

func worthNet() row {
	return row{"Am I saving", []panel{
		{
			title: "Net saved (modelled bill without tidemark − observed bill − reuse − own calls)", kind: number, unit: usd, scale: net, width: 6,
			says:    "Negative: tidemark costs money here. reuse: what was left out and needed again. Own calls have no route: all of them are taken off whatever routes are chosen.",
			queries: []query{{netSaved, "net"}},
		},
		{
			title: "Net saved, % of the modelled bill without tidemark", kind: number, unit: percent, scale: net, width: 6,
			says:    "The divisor is the whole bill, cache reads and output included, not only what is uncached.",
			queries: []query{{`(` + netSaved + `) / (` + baseline + ` > 0)`, "net"}},
		},
		{
			title: "Bill (observed tokens at list prices)", kind: number, unit: usd, width: 4,
			says: "What the provider said it billed, by the price table.", queries: []query{{billed, "billed"}},
		},
		{
			title: "tidemark's own calls (observed)", kind: number, unit: usd, width: 4,
			says: "Summaries and probes. Already taken off the net.", queries: []query{{own, "own"}},
		},
		{
			title: "Cache reads, % of all prompt tokens billed (observed)", kind: number, unit: percent, width: 4,
			says:    "The hit rate by tokens: a request that reads a little and writes much counts as what it is.",
			queries: []query{{`sum(increase(tidemark_billed_tokens_total{tier="cache_read",{R}}[$range])) / (sum(increase(tidemark_billed_tokens_total{tier!="output",{R}}[$range])) > 0)`, "read"}},
		},
		{
			title: "Net saved by route, before own calls (modelled − observed, USD per hour)", kind: lines, unit: usd, scale: net, width: 12,
			says:    "Routes below the line lose.",
			queries: []query{{routeNet, "{{route}}"}},
		},
		{
			title: "Billed tokens by tier (observed, per second)", kind: lines, unit: tokens, width: 12,
			says:    "cache_write_* is dear, cache_read cheap. A rise of writes at the same traffic is a lost cache.",
			queries: []query{{`sum by (tier) (rate(tidemark_billed_tokens_total{{R}}[$range]))`, "{{tier}}"}},
		},
	}}
}

func worthCauses() row {
	return row{"What the cache loses, and who did it", []panel{
		{
			title: "Cache losses by cause (observed, USD per hour)", kind: lines, unit: usd, width: 12,
			says:    "Tokens that were paid for again, above the price of reading them. first and ttl are no fault; client_* is the client's, tidemark is ours. Runbook: docs/dashboards.md.",
			queries: []query{{`3600 * sum by (cause) (rate(tidemark_cache_lost_usd_total[$range]))`, "{{cause}}"}},
		},
		{
			title: "Cache losses by cause (observed, USD)", kind: bars, unit: usd, width: 6,
			says:    "The same over the chosen range, largest first.",
			queries: []query{{`sort_desc(sum by (cause) (increase(tidemark_cache_lost_usd_total[$range])))`, "{{cause}}"}},
		},
		{
			title: "Lost to tidemark's own changes, % of the observed bill of all routes", kind: number, unit: percent, scale: badAbove, width: 6,
			says:    "What moves and holds cost on the way. It is in the net already.",
			queries: []query{{`(sum(increase(tidemark_cache_lost_usd_total{cause="tidemark"}[$range])) or vector(0)) / (sum(increase(tidemark_cost_usd_total{basis="observed"}[$range])) > 0)`, "lost"}},
		},
		{
			title: "Lost to tidemark, by filter (observed, tokens)", kind: bars, unit: tokens, width: 12,
			says:    "Which filter's moves lost what the provider held.",
			queries: []query{{`sort_desc(sum by (filter) (increase(tidemark_cache_lost_tokens_total{cause="tidemark"}[$range])))`, "{{filter}}"}},
		},
		{
			title: "Tokens read from the cache, % of those that tidemark expected to be read (observed ÷ expected)", kind: lines, unit: percent, width: 12,
			says:    "Far below 100 %: the provider forgets, or something after tidemark rewrites requests.",
			queries: []query{{`sum by (route) (rate(tidemark_observed_cached_tokens_total{{R}}[$range])) / (sum by (route) (rate(tidemark_expected_cached_tokens_total{{R}}[$range])) > 0)`, "{{route}}"}},
		},
	}}
}

func worthShares() row {
	return row{"Whose saving it is: the provider's cache and tidemark apart", []panel{
		{
			title: "Saved by the provider's cache alone (modelled without tidemark, USD per hour)", kind: lines, unit: usd, width: 12,
			says:    "What breakpoints of the client and the provider's cache would have saved without tidemark. tidemark claims none of it.",
			queries: []query{{`3600 * sum by (route) (rate(tidemark_provider_saved_usd_total{{R}}[$range]))`, "{{route}}"}},
		},
		{
			title: "Saved by tidemark since its start (modelled − observed): removal and levers", kind: lines, unit: usd, scale: net, width: 12,
			says:    "removal: results left out. levers: breakpoints and lifetimes. They start at zero with each process; either may be negative.",
			queries: []query{{`sum by (by) (tidemark_saved_usd{{R}})`, "{{by}}"}},
		},
		{
			title: "Breakpoints changed, by action (observed)", kind: bars, unit: count, width: 12,
			says:    "The levers at work: held, anchored, bridged, placed, ttl_raised, ttl_lowered.",
			queries: []query{{`sort_desc(sum by (action) (increase(tidemark_breakpoints_total{{R}}[$range])))`, "{{action}}"}},
		},
		{
			title: "tidemark's own calls by purpose (observed, USD)", kind: bars, unit: usd, width: 12,
			says:    "Off the net already.",
			queries: []query{{`sort_desc(sum by (purpose) (increase(tidemark_own_cost_usd_total[$range])))`, "{{purpose}}"}},
		},
	}}
}

func worthRemoved() row {
	return row{"What was left out", []panel{
		{
			title: "Removed tokens by filter, counted once at first removal (estimated)", kind: bars, unit: tokens, width: 8,
			says:    "Net of markers. Not a saving by itself: a token that would have been read from the cache costs a tenth.",
			queries: []query{{`sort_desc(sum by (filter) (increase(tidemark_removed_tokens_total{{R}}[$range])))`, "{{filter}}"}},
		},
		{
			title: "Removed tokens at their first removal, by what they would have been billed as (modelled, USD)", kind: bars, unit: usd, width: 8,
			says:    "Each token stands under one price: as a cache read, as full input, as a cache write, or a mixture. What is removed again with every later request is not in here.",
			queries: []query{{`sort_desc(sum by (pricing) (increase(tidemark_removed_usd_total{{R}}[$range])))`, "{{pricing}}"}},
		},
		{
			title: "Given back or needed again (estimated, tokens)", kind: bars, unit: tokens, width: 8,
			says: "What models asked for after it was left out. Much of it: the filter cuts too early.",
			queries: []query{
				{`sum by (path, filter) (increase(tidemark_restored_tokens_total[$range]))`, "restored {{path}} {{filter}}"},
				{`sum by (kind, filter) (increase(tidemark_reused_tokens_total{kind!="restored"}[$range]))`, "reused {{kind}} {{filter}}"},
			},
		},
		{
			title: "Given back or needed again, % of removed tokens (estimated)", kind: lines, unit: percent, width: 8,
			says:    "The price of cutting, against what was cut in the same time.",
			queries: []query{{`((sum(rate(tidemark_restored_tokens_total[$range])) or vector(0)) + (sum(rate(tidemark_reused_tokens_total{kind!="restored"}[$range])) or vector(0))) / (sum(rate(tidemark_removed_tokens_total[$range])) > 0)`, "given back or reused"}},
		},
		{
			title: "What was needed again, by route (modelled, USD)", kind: bars, unit: usd, width: 8,
			says:    "A call each, and the tokens once more. Already off the net.",
			queries: []query{{`sort_desc(sum by (route) (increase(tidemark_reuse_usd_total{{R}}[$range])))`, "{{route}}"}},
		},
		{
			title: "Moves: predicted and realised (modelled, USD since the start)", kind: lines, unit: usd, width: 8,
			says: "Forecast against outcome of the moments at which covered bytes changed.",
			queries: []query{
				{`sum by (kind) (tidemark_move_predicted_usd_total)`, "predicted {{kind}}"},
				{`sum by (kind) (tidemark_move_realised_usd)`, "realised {{kind}}"},
			},
		},
		{
			title: "Replayed tokens: not sent again because an earlier decision stands (estimated, per second)", kind: lines, unit: tokens, width: 12,
			says:    "Never added to removed tokens: that would count a saving on every request.",
			queries: []query{{`sum by (route) (rate(tidemark_replayed_tokens_total{{R}}[$range]))`, "{{route}}"}},
		},
		{
			title: "Bytes after tidemark, % of bytes before it (observed)", kind: lines, unit: percent, width: 12,
			says:    "Size, not money.",
			queries: []query{{`sum by (route) (rate(tidemark_outbound_bytes_total{{R}}[$range])) / (sum by (route) (rate(tidemark_inbound_bytes_total{{R}}[$range])) > 0)`, "{{route}}"}},
		},
	}}
}

func worthSessions() row {
	return row{"Who loses", []panel{
		{
			title: "Finished conversations that lost more than 1 % of their modelled bill, % of all finished ones (modelled)", kind: number, unit: percent, scale: badAbove, width: 6,
			says:    "The mean hides them. A conversation counts once, when it ends. Those that came out even, as where nothing was done, are none of them.",
			queries: []query{{`sum(increase(tidemark_session_net_ratio_bucket{le="-0.01",{R}}[$range])) / (sum(increase(tidemark_session_net_ratio_count{{R}}[$range])) > 0)`, "lost"}},
		},
		{
			title: "Net saving of finished conversations, % of their modelled bill: tenth, half, nine tenths", kind: lines, unit: percent, scale: net, width: 12,
			says: "Quantiles over conversations. The lowest line shows the losers.",
			queries: []query{
				{`histogram_quantile(0.1, sum by (le) (rate(tidemark_session_net_ratio_bucket{{R}}[$range])))`, "p10"},
				{`histogram_quantile(0.5, sum by (le) (rate(tidemark_session_net_ratio_bucket{{R}}[$range])))`, "p50"},
				{`histogram_quantile(0.9, sum by (le) (rate(tidemark_session_net_ratio_bucket{{R}}[$range])))`, "p90"},
			},
		},
		{
			title: "Brakes: conversations that stopped deciding for a loss (observed)", kind: bars, unit: count, width: 6, scale: badAbove,
			says:    "Each stopped because reads fell short. Runbook: docs/dashboards.md#net-negative.",
			queries: []query{{`sort_desc(sum by (route) (increase(tidemark_brakes_total{{R}}[$range])))`, "{{route}}"}},
		},
	}}
}

func worthCompared() row {
	return row{"Against sessions without tidemark: holdout, rollout, shadow", []panel{
		{
			title: "Bill per request by group (observed, USD)", kind: lines, unit: usd, width: 12,
			says:    "The honest comparison: holdout is a share of sessions that tidemark leaves alone. Groups differ by chance while they are small.",
			queries: []query{{`sum by (group) (rate(tidemark_group_cost_usd_total{{R}}[$range])) / (sum by (group) (rate(tidemark_group_requests_total{{R}}[$range])) > 0)`, "{{group}}"}},
		},
		{
			title: "Bill per request over the range, by group (observed, USD)", kind: bars, unit: usd, width: 6,
			says:    "The same over the chosen range.",
			queries: []query{{`sum by (group) (increase(tidemark_group_cost_usd_total{{R}}[$range])) / (sum by (group) (increase(tidemark_group_requests_total{{R}}[$range])) > 0)`, "{{group}}"}},
		},
		{
			title: "Tokens that mode active would have removed (shadow)", kind: bars, unit: tokens, width: 6,
			says:    "Routes in mode shadow. Nothing of it was removed, and nothing of it is in other panels.",
			queries: []query{{`sort_desc(sum by (filter) (increase(tidemark_shadow_removed_tokens_total{{R}}[$range])))`, "{{filter}}"}},
		},
	}}
}
