package grafana

// healthy is the dashboard Is it healthy.
func healthy() []row {
	return []row{healthyZero(), healthyGates(), healthyTap(), healthyTime(), healthyState(), healthyEnvoy()}
}

// zero is a panel for a counter that must stay at 0. expr is what is counted.
func zero(title, says, expr string, s scale) panel {
	return panel{
		title: title, says: says, kind: number, unit: count, scale: s, width: 4,
		queries: []query{{`sum(increase(` + expr + `[$range])) or vector(0)`, ""}},
	}
}

func healthyZero() row {
	return row{"What must stay at zero", []panel{
		zero("Undeclared prefix changes", "Bytes of a live cache entry changed without a move. A fault of tidemark's: set mode: off and report it. Runbook: docs/dashboards.md#undeclared-prefix-change.", `tidemark_prefix_changes_total{declared="false"}`, mustBe0),
		zero("Panics", "Contained: the request went on as it came. Runbook: docs/dashboards.md#panics.", `tidemark_panics_total`, mustBe0),
		zero("Proof failures", "New edits that could not be proven were not made. Runbook: docs/dashboards.md#proof-failures.", `tidemark_proof_failures_total`, mustBe0),
		zero("Desyncs", "Something may be in force and could not be replayed: the original was sent.", `tidemark_desyncs_total`, mustBe0),
		zero("Shrunk in vain", "The request shrank and was billed at its old size: a filter after tidemark undoes it. Runbook: docs/dashboards.md#mutation-ineffective.", `tidemark_mutation_ineffective_total{{R}}`, mustBe0),
		zero("Deadline exceeded", "No time left to decide; what was in force was replayed. Runbook: docs/dashboards.md#deadline-exceeded.", `tidemark_deadline_exceeded_total`, badAbove),
	}}
}

func healthyGates() row {
	return row{"Why does it save nothing", []panel{
		{
			title: "Gates of whole requests", kind: bars, unit: count, width: 12,
			says:    "Named reasons why a request got no new decision. docs/gates.md says what each asks of you.",
			queries: []query{{`topk(15, sum by (gate) (increase(tidemark_gates_total{filter=""}[$range])))`, "{{gate}}"}},
		},
		{
			title: "Gates of single results, by filter", kind: bars, unit: count, width: 12,
			says:    "cached_prefix is the usual one: the provider holds it, so it is left alone until the cache is cold.",
			queries: []query{{`topk(15, sum by (filter, gate) (increase(tidemark_gates_total{filter!=""}[$range])))`, "{{filter}}: {{gate}}"}},
		},
		{
			title: "Requests by what became of them (per second)", kind: lines, unit: perSec, width: 8,
			says:    "identity: nothing to do; replayed: earlier decisions stand; fresh and moved: new ones; error: the original was sent where a decision may stand.",
			queries: []query{{`sum by (outcome) (rate(tidemark_requests_total{{R}}[$range]))`, "{{outcome}}"}},
		},
		{
			title: "Requests by mode (per second)", kind: lines, unit: perSec, width: 8,
			says:    "shadow and off save nothing by design.",
			queries: []query{{`sum by (mode) (rate(tidemark_requests_total{{R}}[$range]))`, "{{mode}}"}},
		},
		{
			title: "Requests that were never looked at, by reason (per second)", kind: lines, unit: perSec, width: 8,
			says:    "path, method and the like: not an LLM request, or in a form that tidemark does not read.",
			queries: []query{{`sum by (reason) (rate(tidemark_passed_total[$range]))`, "{{reason}}"}},
		},
	}}
}

func healthyTap() row {
	return row{"Does it learn what was billed", []panel{
		{
			title: "Requests and tokens that the provider billed (per second)", kind: lines, unit: tokens, width: 8,
			says: "Requests without billed tokens: the tap is dry. Runbook: docs/dashboards.md#tap-dry.",
			queries: []query{
				{`sum(rate(tidemark_requests_total{{R}}[$range]))`, "requests"},
				{`sum(rate(tidemark_billed_tokens_total{{R}}[$range]))`, "billed tokens"},
			},
		},
		{
			title: "Beliefs about the cache that the provider refuted", kind: bars, unit: count, scale: badAbove, width: 8,
			says:    "cold: held longer than the clock said. lift: an hour asked for and not given.",
			queries: []query{{`sort_desc(sum by (belief) (increase(tidemark_misjudgements_total[$range])))`, "{{belief}}"}},
		},
		{
			title: "Conversations that braked", kind: bars, unit: count, scale: badAbove, width: 8,
			says:    "They stopped deciding because reads fell short.",
			queries: []query{{`sort_desc(sum by (route) (increase(tidemark_brakes_total{{R}}[$range])))`, "{{route}}"}},
		},
	}}
}

func healthyTime() row {
	return row{"Is it fast", []panel{
		{
			title: "Time that a body takes: half, 99 of 100", kind: lines, unit: seconds, width: 8,
			says: "Below the deadline of the config, which lies below Envoy's message_timeout.",
			queries: []query{
				{`histogram_quantile(0.5, sum by (le) (rate(tidemark_processing_duration_seconds_bucket{phase="request_body"}[$range])))`, "p50"},
				{`histogram_quantile(0.99, sum by (le) (rate(tidemark_processing_duration_seconds_bucket{phase="request_body"}[$range])))`, "p99"},
			},
		},
		{
			title: "Time by stage: 99 of 100", kind: lines, unit: seconds, width: 8,
			says:    "commit waits for the store's disk; propose for filters.",
			queries: []query{{`histogram_quantile(0.99, sum by (le, stage) (rate(tidemark_stage_duration_seconds_bucket[$range])))`, "{{stage}}"}},
		},
		{
			title: "ext_proc streams", kind: lines, unit: count, width: 8,
			says: "Open ones, and those that ended by code (per second). Canceled is normal.",
			queries: []query{
				{`sum(tidemark_extproc_streams_inflight)`, "open"},
				{`sum by (code) (rate(tidemark_extproc_streams_total[$range]))`, "{{code}}"},
			},
		},
		{
			title: "How long ext_proc streams live: 99 of 100", kind: lines, unit: seconds, width: 12,
			says:    "With a tap on the response, as long as the response.",
			queries: []query{{`histogram_quantile(0.99, sum by (le) (rate(tidemark_extproc_stream_duration_seconds_bucket[$range])))`, "p99"}},
		},
		{
			title: "Refused before they were looked at, by listener and reason (per second)", kind: lines, unit: perSec, width: 12,
			says:    "Requests to the admin, restore and compress listeners without a token, or too many.",
			queries: []query{{`sum by (listener, reason) (rate(tidemark_refused_requests_total[$range]))`, "{{listener}}: {{reason}}"}},
		},
	}}
}

func healthyState() row {
	return row{"State, config, events", []panel{
		{
			title: "Store operations by result (per second)", kind: lines, unit: perSec, width: 8,
			says:    "error and timeout: new decisions stop (gate store_unavailable). full: the cap on originals. Runbook: docs/dashboards.md#store-errors.",
			queries: []query{{`sum by (result) (rate(tidemark_store_operations_total[$range]))`, "{{result}}"}},
		},
		{
			title: "Store operations: 99 of 100", kind: lines, unit: seconds, width: 8,
			says:    "commit waits for the disk or for Redis.",
			queries: []query{{`histogram_quantile(0.99, sum by (le, op) (rate(tidemark_store_operation_duration_seconds_bucket[$range])))`, "{{op}}"}},
		},
		{
			title: "Bytes in the store, and originals that gave way (per second)", kind: lines, unit: bytes, width: 8,
			says: "Originals of a conversation that is alive never give way.",
			queries: []query{
				{`sum by (kind) (tidemark_store_bytes)`, "{{kind}}"},
				{`sum(rate(tidemark_originals_evicted_total[$range]))`, "originals evicted"},
			},
		},
		{
			title: "Conversations and sessions in memory", kind: lines, unit: count, width: 8,
			says:    "What this replica holds; others come from the store.",
			queries: []query{{`sum(tidemark_sessions_active)`, "sessions"}, {`sum(tidemark_lineages_active)`, "conversations"}},
		},
		{
			title: "Decisions: stored, lost to another replica, replayed (per second)", kind: lines, unit: perSec, width: 8,
			says:    "Many lost: replicas take turns at one session. Keep sessions sticky.",
			queries: []query{{`sum by (result) (rate(tidemark_latches_total[$range]))`, "{{result}}"}},
		},
		{
			title: "Config loads by result, and route configs that cannot be used", kind: bars, unit: count, width: 4,
			says: "After an error the last good config stays. Runbook: docs/dashboards.md#config-reload-failed.",
			queries: []query{
				{`sum by (result) (increase(tidemark_config_loads_total[$range]))`, "load: {{result}}"},
				{`sum by (reason) (increase(tidemark_config_route_errors_total[$range]))`, "route: {{reason}}"},
			},
		},
		{
			title: "Age of the config in use", kind: number, unit: seconds, width: 4,
			says:    "Since the last load that worked, of the replica that is behind.",
			queries: []query{{`time() - min(tidemark_config_last_success_timestamp_seconds)`, ""}},
		},
		{
			title: "Events by result (per second)", kind: lines, unit: perSec, width: 12,
			says:    "dropped: the file could not keep up; failed: it could not be written. No request waits for it.",
			queries: []query{{`sum by (result) (rate(tidemark_events_total[$range]))`, "{{result}}"}},
		},
		{
			title: "Builds, configs and price tables that run (series)", kind: bars, unit: count, width: 12,
			says: "More than one of a kind: replicas differ.",
			queries: []query{
				{`count by (version) (tidemark_build_info)`, "build {{version}}"},
				{`count by (hash) (tidemark_config_info)`, "config {{hash}}"},
				{`count by (date) (tidemark_price_table_info)`, "prices {{date}}"},
			},
		},
	}}
}

func healthyEnvoy() row {
	const says = " Envoy's own counter, with stat_prefix: tidemark on the ext_proc filter."
	return row{"What Envoy sees", []panel{
		{
			title: "Requests that went on without tidemark (per second)", kind: lines, unit: perSec, scale: badAbove, width: 8,
			says:    "Fail-open: tidemark was down, slow or broke the protocol." + says,
			queries: []query{{`sum(rate(envoy_http_ext_proc_tidemark_failure_mode_allowed[$range]))`, "failed open"}},
		},
		{
			title: "Message timeouts (per second)", kind: lines, unit: perSec, scale: badAbove, width: 8,
			says:    "message_timeout ran out before tidemark answered." + says,
			queries: []query{{`sum(rate(envoy_http_ext_proc_tidemark_message_timeouts[$range]))`, "timeouts"}},
		},
		{
			title: "Streams started and failed (per second)", kind: lines, unit: perSec, width: 8,
			says: "Failed ones end with a code that is not OK." + says,
			queries: []query{
				{`sum(rate(envoy_http_ext_proc_tidemark_streams_started[$range]))`, "started"},
				{`sum(rate(envoy_http_ext_proc_tidemark_streams_failed[$range]))`, "failed"},
			},
		},
	}}
}
