package routeconfig

// Preset is a pipeline that every server has without config.
type Preset struct {
	Name    string
	Summary string         // what it is for, in half a sentence
	Reason  string         // what was measured that speaks for it or against it
	Config  map[string]any // the route config; its pipeline is a list
}

// BuiltIn is the config that the server's default starts from: the preset default. The caller owns it.
func BuiltIn() map[string]any {
	return map[string]any{
		"pipeline": []any{"readlifecycle", "tiered"}, "components": map[string]any{"tiered": map[string]any{"window": 20, "browser_window": 0}},
		"ttl": "auto",
	}
}

// Presets lists the presets (design §7), the server's built-in default first. Those that do not name a seed hold only what
// was seen to pay, and a seed's preset has that seed's own defaults. The caller owns it.
func Presets() []Preset {
	return []Preset{
		{
			Name: defaultName, Summary: "what routes run with where neither they nor the server's config say anything",
			Reason: "The cache levers of `lossless`, and at moments when the cache is cold anyway two kinds of results are shortened: reads of files that" +
				" were modified or read again later, and what is 20 turns old or older. The bill of 101 sessions falls by 8.0 % (−7.5 % net; `lossless`" +
				" alone −5.4 %): by 16.0 % (−15.8 % net) where the client asked for 5 minutes, by 3.5 % (−2.8 % net) where it asked for an hour. No session is dearer" +
				" by more than 0.8 %. Replaced the turn they become stale, reads cost +5.2 %.",
			Config: BuiltIn(),
		},
		{
			Name: "deep", Summary: "as default, results are shortened from a distance of 8 turns on, and a transcript of more than 96,000 tokens loses its stale middle",
			Reason: "The bill of 101 sessions falls by 8.1 % (−7.6 % net): a tenth of a point more than with `default`, for 54 results more that are left" +
				" out, and for nearer ones. `shed` acts on none of them: at cold moments their messages are within its budget, the more so once `tiered` has" +
				" shortened them. With `warm: true` laid over it −9.9 % (−9.2 % net). Either way no session is dearer by more than 0.8 %.",
			Config: map[string]any{"pipeline": []any{"readlifecycle", "tiered", "shed"}, "ttl": "auto"},
		},
		{
			Name: "lossless", Summary: "cache levers alone: breakpoints change, content does not",
			Reason: "`ttl: auto` alone: −16.8 % of the bill of 68 sessions that were billed at 5 minutes, none of them dearer by more than 1.0 %; +0.9 %" +
				" if lifts do not do what the provider documents. `place` was not measured and stays off.",
			Config: map[string]any{"pipeline": []any{}, "ttl": "auto"},
		},
		{
			Name: "observe", Summary: "nothing changes; what the provider reports is metered and accounted for",
			Reason: "Requests cost what they cost without tidemark: the baseline of all figures here.",
			Config: map[string]any{"pipeline": []any{}},
		},
		{
			Name: "seed-000", Summary: "readlifecycle as its original ships it, for comparison",
			Reason: "Acts only on reads that no cache covers yet, which is 1 of 2,120 in recorded sessions: it saves next to nothing.",
			Config: seed("readlifecycle", map[string]any{"bash_reads": false, "cold_cache": false}),
		},
		{
			Name: "seed-001", Summary: "tiered as its original ships it, without summaries, for comparison",
			Reason: "The bill of 101 sessions falls by 5.8 % (−4.9 % net), by 3.5 % (−2.7 % net) where the client asked for an hour. None is dearer." +
				" It acts at cold moments alone: run on each turn, as distances slide, it would change what is cached nearly every time.",
			Config: seed("tiered", map[string]any{"min_tokens": 0}),
		},
		{
			Name: "seed-002", Summary: "shed as its original ships it, warm moves included, for comparison",
			Reason: "The bill of 101 sessions falls by 14.9 % (−14.0 % net), half of it at cold moments (−7.1 % and −6.8 % net with `warm: false`, none" +
				" dearer). Five are dearer by more than 0.2 %, the worst by 2.1 %. It leaves out 2,660 results, and what humans said between them. Its original" +
				" moves the cut on each of its fires, which costs several times what it saves.",
			Config: rewriting(seed("shed", map[string]any{"budget": 48_000, "quantum": 24_000, "keep_human": false})),
		},
		{
			Name: "seed-003", Summary: "readmaturation as its original ships it, always on, for comparison",
			Reason: "The bill of 101 sessions rises by 6.1 % (+9.1 % net), 75 of them are dearer. A hold of 5 turns loses below some 2,000 to 6,000" +
				" tokens a read, and one of 25 turns in every case that was modelled.",
			Config: seed("readmaturation", map[string]any{"hold": "always", "quiesce_turns": 5, "max_hold_turns": 25}),
		},
		{
			Name: "seed-004", Summary: "coref as its original ships it, warm moves included, for comparison",
			Reason: "The bill of 101 sessions falls by 1.6 % (−1.3 % net), all of it at cold moments: its conditions for changing what is cached" +
				" were never met. None is dearer.",
			Config: rewriting(seed("coref", map[string]any{})),
		},
	}
}

// seed is a filter on its own: the originals have neither levers nor the guards that stop decisions.
func seed(filter string, keys map[string]any) map[string]any {
	return map[string]any{
		"pipeline": []any{filter}, "components": map[string]any{filter: keys}, "raw_guard": false, "brake": false,
	}
}

// rewriting lets a seed's filter change cached parts on its own conditions alone.
func rewriting(config map[string]any) map[string]any {
	config["warm"], config["min_gain_frac"], config["min_turns_between_moves"] = true, 0, 0
	return config
}

// operatorKeys say whose requests these are and how far tidemark may go. A preset says nothing of that, so that the server's
// default does, whichever preset a route names.
var operatorKeys = []string{"tenant", "session_headers", "anonymous", "resigned", "binding", "mode", "rollout", "holdout", "inline_restore"}

// presets makes named pipelines of the presets, laid over the operator's keys of a config. One with a filter that the resolver
// does not know is not offered. Pipelines whose names are taken stay as they are.
func (r *Resolver) presets(operator map[string]any, taken map[string]map[string]any) {
	for _, p := range Presets() {
		if _, ok := taken[p.Name]; ok || p.Name == defaultName {
			continue
		}
		raw := p.Config
		for _, k := range operatorKeys {
			if v := operator[k]; v != nil {
				raw[k] = v
			}
		}
		if route, problems := r.compile(raw); len(problems) == 0 {
			route.Config.Name = p.Name
			r.named[p.Name] = named{raw, route}
		}
	}
}
