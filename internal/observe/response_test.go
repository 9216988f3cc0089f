package observe_test

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// model has a price of its own.
const model = "claude-opus-5-5"

func observation() *pipeline.Observation {
	return &pipeline.Observation{
		Usage: &pipeline.Usage{Input: 100, Read: 4000, Write5m: 900, Write1h: 1000, Output: 50}, Model: cache.Prices().Lookup(model).Name,
		Expected: 6000, Loss: &pipeline.Loss{Cause: pipeline.CauseTidemark, Filter: "readlifecycle", Tokens: 2000, Diagnostics: true},
		Cost: 0.25, Baseline: 0.75, ColdMisjudged: true, LiftMisjudged: true, Ineffective: true, Braked: true, MoveForecast: 1.5,
	}
}

func TestResponseIsCounted(t *testing.T) {
	m := everything()
	for _, want := range []string{
		"tidemark_billed_tokens_total{model=claude-opus-5-5,route=chat,tier=input} 100",
		"tidemark_billed_tokens_total{model=claude-opus-5-5,route=chat,tier=cache_read} 4000",
		"tidemark_billed_tokens_total{model=claude-opus-5-5,route=chat,tier=cache_write_5m} 900",
		"tidemark_billed_tokens_total{model=claude-opus-5-5,route=chat,tier=cache_write_1h} 1000",
		"tidemark_billed_tokens_total{model=claude-opus-5-5,route=chat,tier=output} 50",
		"tidemark_cost_usd_total{basis=observed,model=claude-opus-5-5,route=chat} 0.25",
		"tidemark_cost_usd_total{basis=baseline,model=claude-opus-5-5,route=chat} 0.75",
		"tidemark_net_saved_usd{route=chat} 0",
		"tidemark_group_requests_total{group=active,route=chat} 1",
		"tidemark_group_cost_usd_total{group=active,route=chat} 0.25",
		"tidemark_group_cost_usd_total{group=holdout,route=chat} 0.5",
		"tidemark_restores_total{path=inline,result=ok} 1",
		"tidemark_restores_total{path=inline,result=miss} 1",
		"tidemark_restored_tokens_total{filter=shed,path=inline} 300",
		"tidemark_expected_cached_tokens_total{model=claude-opus-5-5,route=chat} 6000",
		"tidemark_observed_cached_tokens_total{model=claude-opus-5-5,route=chat} 4000",
		"tidemark_cache_losses_total{cause=tidemark,filter=readlifecycle,source=diagnostics} 1",
		"tidemark_cache_lost_tokens_total{cause=tidemark,filter=readlifecycle,source=diagnostics} 2000",
		"tidemark_brakes_total{route=chat} 1",
		"tidemark_mutation_ineffective_total{route=chat} 1",
		"tidemark_move_predicted_usd_total{kind=cold} 1.5",
		"tidemark_misjudgements_total{belief=cold} 1",
		"tidemark_misjudgements_total{belief=lift} 1",
		"tidemark_price_table_info{date=" + cache.Prices().Date() + "} 1",
	} {
		value(t, m, want)
	}
}

// A lost token costs what unread tokens cost on average, less the price of reading it.
func TestPriceOfLoss(t *testing.T) {
	m := everything()
	rates := cache.Prices().Lookup(model).Rates(6000)
	want := 2000 * ((100*rates.Input+900*rates.Write5m+1000*rates.Write1h)/2000 - rates.Read) / 1e6
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tidemark_cache_lost_usd_total" {
			if got := f.GetMetric()[0].GetCounter().GetValue(); got == 0 || math.Abs(got-want) > 1e-12 {
				t.Errorf("%v, want %v", got, want)
			}
			return
		}
	}
	t.Error("no such metric")
}

// What tidemark costs shows: the net may be negative. A response of which nothing is known counts nowhere.
func TestNet(t *testing.T) {
	m := observe.NewMetrics("")
	v := observation()
	v.Model, v.Cost, v.Baseline, v.Loss = "", 2, 1.5, nil
	m.Observed(request(), &pipeline.Outcome{}, v)
	value(t, m, "tidemark_net_saved_usd{route=chat} -0.5")
	value(t, m, "tidemark_cost_usd_total{basis=observed,model=_other,route=chat} 2")
	m = observe.NewMetrics("")
	m.Observed(request(), outcome(), &pipeline.Observation{Model: "m", Expected: 7})
	for _, name := range []string{"billed_tokens_total", "cost_usd_total", "net_saved_usd", "expected_cached_tokens_total", "cache_losses_total", "move_predicted_usd_total"} {
		if n, err := testutil.GatherAndCount(m.Registry, "tidemark_"+name); n != 0 || err != nil {
			t.Errorf("%s has %d series, %v", name, n, err)
		}
	}
	m.Observed(request(), outcome(), observation()) // without prices a loss has none
	value(t, m, "tidemark_cache_lost_usd_total{cause=tidemark,filter=readlifecycle,source=diagnostics} 0")
}

func TestAccount(t *testing.T) {
	want := map[string]any{
		"input_tokens": 100.0, "cache_read_tokens": 4000.0, "cache_write_tokens": 1900.0, "output_tokens": 50.0, "cost_usd": 0.25, "baseline_usd": 0.75, "net_usd": 0.5,
		"expected_cached_tokens": 6000.0, "lost_tokens": 2000.0, "loss_cause": "tidemark", "loss_source": "diagnostics",
	}
	if d := cmp.Diff(want, observe.Account(observation()).AsMap()); d != "" {
		t.Error(d)
	}
	if got := observe.Account(&pipeline.Observation{Model: "m", Expected: 3}).AsMap(); len(got) != 0 {
		t.Errorf("nothing is known, but %v", got)
	}
}

func TestLogObserved(t *testing.T) {
	var out bytes.Buffer
	observe.LogObserved(t.Context(), observe.NewLogger(&out, slog.LevelInfo, observe.LogText), request(), outcome(), observation())
	log := observe.NewLogger(&out, slog.LevelDebug, observe.LogText)
	observe.LogObserved(t.Context(), log, request(), outcome(), nil)
	if out.Len() > 0 {
		t.Error(out.String())
	}
	observe.LogObserved(t.Context(), log, request(), outcome(), observation())
	for _, s := range []string{"msg=response", "request_id=r1", "usage=true", "read=4000", "write_1h=1000", "cost_usd=0.25", "loss_cause=tidemark", "loss_filter=readlifecycle", "lost_tokens=2000"} {
		if !strings.Contains(out.String(), s) {
			t.Errorf("%s is missing in %s", s, out.String())
		}
	}
}
