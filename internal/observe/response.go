package observe

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// responses are the metrics of what providers say. The label model holds names of the price table, which [pipeline.Observation]
// promises.
type responses struct {
	prices atomic.Pointer[cache.Table]

	priceTable              *prometheus.GaugeVec
	billed, cost            *prometheus.CounterVec
	groups, groupCost       *prometheus.CounterVec
	expected, read          *prometheus.CounterVec
	losses, lost, lostCost  *prometheus.CounterVec
	brakes, ineffective     *prometheus.CounterVec
	forecast, misjudgements *prometheus.CounterVec
}

func (r registerer) responses(m *Metrics) {
	m.priceTable = r.gaugeVec("price_table_info", "Constant 1; names the price table in use by its date.", "date")
	m.billed = r.counterVec("billed_tokens_total", "Tokens that the provider billed, by what it bills them as.", "route", "model", "tier")
	m.cost = r.counterVec("cost_usd_total", "Price of the billed tokens by the price table; baseline: modelled, had requests gone on as they came.", "route", "model", "basis")
	m.groups = r.counterVec("group_requests_total", "Answered requests whose bill is known, by the group that rollout and holdout put their session in.", "route", "group")
	m.groupCost = r.counterVec("group_cost_usd_total", "Price of the billed tokens of a group.", "route", "group")
	m.expected = r.counterVec("expected_cached_tokens_total", "Tokens that the known cache entries let expect to be read.", "route", "model")
	m.read = r.counterVec("observed_cached_tokens_total", "Tokens that were read where something was expected.", "route", "model")
	m.losses = r.counterVec("cache_losses_total", "Requests that paid again for what their session had paid for, by cause.", "cause", "filter", "source")
	m.lost = r.counterVec("cache_lost_tokens_total", "Tokens that were paid for again, by cause.", "cause", "filter", "source")
	m.lostCost = r.counterVec("cache_lost_usd_total", "What tokens that were paid for again cost above reading them, by cause.", "cause", "filter", "source")
	m.brakes = r.counterVec("brakes_total", "Conversations that stopped deciding because reads fell short.", "route")
	m.ineffective = r.counterVec("mutation_ineffective_total", "Requests that shrank and were billed at their old size: another filter undid it.", "route")
	m.forecast = r.counterVec("move_predicted_usd_total", "What moves were predicted to save.", "kind")
	m.misjudgements = r.counterVec("misjudgements_total", "Beliefs about the cache that the provider refuted.", "belief")
}

// PriceTable says which prices are in use. Until it is called, losses have no price.
func (m *Metrics) PriceTable(t *cache.Table) {
	m.prices.Store(t)
	m.priceTable.Reset()
	m.priceTable.WithLabelValues(t.Date()).Set(1)
}

// Observed counts what the response to a request came to; nil stands for a panic over it.
func (m *Metrics) Observed(r *pipeline.Request, o *pipeline.Outcome, v *pipeline.Observation) {
	if v == nil {
		m.faulty[filters.Panic].Inc()
		return
	}
	route, model := m.routes.of(r.Route), v.Model
	if model == "" {
		model = other
	}
	if v.Usage != nil {
		m.bill(route, model, v)
		if o.Group != "" {
			m.groups.WithLabelValues(route, o.Group).Inc()
			m.groupCost.WithLabelValues(route, o.Group).Add(max(0, v.Cost))
		}
	}
	if v.Expected > 0 && v.Usage != nil {
		m.expected.WithLabelValues(route, model).Add(float64(v.Expected))
		m.read.WithLabelValues(route, model).Add(float64(v.Usage.Read))
	}
	if v.Loss != nil {
		labels := []string{string(v.Loss.Cause), v.Loss.Filter, lossSource(v.Loss)}
		m.losses.WithLabelValues(labels...).Inc()
		m.lost.WithLabelValues(labels...).Add(float64(max(0, v.Loss.Tokens)))
		m.lostCost.WithLabelValues(labels...).Add(m.priceOfLoss(v))
	}
	if k := billedMove(o, v); k != nil && v.MoveForecast > 0 {
		m.forecast.WithLabelValues(k.Kind).Add(v.MoveForecast)
	}
	m.realise(o, v)
	m.verdicts(route, v)
}

// billedMove is the move that is billed with a response, nil without one: that of a request which was answered with an error is billed
// with the one that sends it again.
func billedMove(o *pipeline.Outcome, v *pipeline.Observation) *pipeline.Move {
	return cmp.Or(v.Move, o.Move)
}

func (m *Metrics) bill(route, model string, v *pipeline.Observation) {
	u := v.Usage.Billed()
	for tier, n := range map[string]int{
		"input": u.Input, "cache_read": u.Read, "cache_write_5m": u.Write5m, "cache_write_1h": u.Write1h, "output": u.Output,
	} {
		m.billed.WithLabelValues(route, model, tier).Add(float64(max(0, n)))
	}
	m.cost.WithLabelValues(route, model, "observed").Add(max(0, v.Cost))
	m.cost.WithLabelValues(route, model, "baseline").Add(max(0, v.Baseline))
	m.saved(route, v)
}

func (m *Metrics) verdicts(route string, v *pipeline.Observation) {
	if v.Braked {
		m.brakes.WithLabelValues(route).Inc()
	}
	if v.Ineffective {
		m.ineffective.WithLabelValues(route).Inc()
	}
	if v.ColdMisjudged {
		m.misjudgements.WithLabelValues("cold").Inc()
	}
	if v.LiftMisjudged {
		m.misjudgements.WithLabelValues("lift").Inc()
	}
}

// priceOfLoss is what the lost tokens cost above the price of reading them: each was billed as the request's unread tokens
// were on average.
func (m *Metrics) priceOfLoss(v *pipeline.Observation) float64 {
	t, u := m.prices.Load(), v.Usage
	if t == nil || u == nil || u.Prompt() == u.Read {
		return 0
	}
	rates := t.Lookup(v.Model).Rates(u.Prompt())
	unread := float64(u.Input)*rates.Input + float64(u.Write5m)*rates.Write5m + float64(u.Write1h)*rates.Write1h
	return max(0, float64(v.Loss.Tokens)*(unread/float64(u.Prompt()-u.Read)-rates.Read)/1e6)
}

// lossSource says who named the cause.
func lossSource(l *pipeline.Loss) string {
	if l.Diagnostics {
		return "diagnostics"
	}
	return "ledger"
}

// Account describes what a response came to for access logs, as flat scalars beside those of [Result]. Only what is known is
// there. Tokens are counted once: input are those that were neither read from the cache nor written to it.
func Account(v *pipeline.Observation) *structpb.Struct {
	f := map[string]*structpb.Value{}
	number := func(name string, n float64) { f[name] = structpb.NewNumberValue(n) }
	usd := func(name string, n float64) { number(name, math.Round(n*1e9)/1e9) } // nobody bills less, and 0.1 + 0.2 needs no 17 digits
	if v.Usage != nil {
		u := v.Usage.Billed()
		number("input_tokens", float64(u.Input))
		number("cache_read_tokens", float64(u.Read))
		number("cache_write_tokens", float64(u.Write5m+u.Write1h))
		number("output_tokens", float64(u.Output))
		usd("cost_usd", v.Cost)
		usd("baseline_usd", v.Baseline)
		usd("net_usd", v.Net())
		if v.Expected > 0 {
			number("expected_cached_tokens", float64(v.Expected))
		}
	}
	if l := v.Loss; l != nil {
		number("lost_tokens", float64(l.Tokens))
		f["loss_cause"] = structpb.NewStringValue(string(l.Cause))
		f["loss_source"] = structpb.NewStringValue(lossSource(l))
	}
	return &structpb.Struct{Fields: f}
}

// LogObserved writes one line per response at level debug.
func LogObserved(ctx context.Context, log *slog.Logger, r *pipeline.Request, o *pipeline.Outcome, v *pipeline.Observation) {
	if v == nil || !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", r.ID), slog.String("route", r.Route), slog.String("session", o.Session), slog.String("lineage", lineage(o)),
		slog.String("model", v.Model), slog.Bool("usage", v.Usage != nil),
	}
	if u := v.Usage; u != nil {
		attrs = append(attrs, slog.Int("input", u.Input), slog.Int("read", u.Read), slog.Int("write_5m", u.Write5m), slog.Int("write_1h", u.Write1h),
			slog.Int("output", u.Output), slog.Int("expected", v.Expected), slog.Float64("cost_usd", v.Cost), slog.Float64("baseline_usd", v.Baseline))
	}
	if l := v.Loss; l != nil {
		attrs = append(attrs, slog.String("loss_cause", string(l.Cause)), slog.String("loss_filter", l.Filter), slog.Int("lost_tokens", l.Tokens))
	}
	log.LogAttrs(ctx, slog.LevelDebug, "response", attrs...)
}
