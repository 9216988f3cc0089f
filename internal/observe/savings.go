package observe

import (
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// ownRoute stands for the route of what tidemark spends itself, so that the sum over routes is the whole net.
const ownRoute = "_own"

// maxFollowed is how many conversations are followed to see what their moves realise. Of one that was forgotten it is not known
// any more by which kind of move something was left out.
const maxFollowed = 10_000

// savings are the metrics of what tidemark came to, in USD. All but the provider's prices in them is modelled.
type savings struct {
	net, by, realised *prometheus.GaugeVec
	provider, reuse   *prometheus.CounterVec
	pricing           *prometheus.CounterVec

	followMu sync.Mutex
	followed *lru.Cache[string, *[3]float64] // by conversation: tokens that left with its moves, by place in moveKinds
}

// moveKinds are the kinds of moves, and none: what was left out of results that had never been sent.
var moveKinds = [...]string{pipeline.Cold, pipeline.Warm, "fresh"}

func (r registerer) savings(m *Metrics) {
	m.net = r.gaugeVec("net_saved_usd", "Since the start, modelled: baseline less observed cost less reuse; negative where tidemark costs money. Route _own is what tidemark spent itself, so that the sum is the whole.", "route")
	m.by = r.gaugeVec("saved_usd", "Since the start, modelled: the parts of baseline less observed cost, by what did it: removal, levers. May be negative.", "route", "by")
	m.realised = r.gaugeVec("move_realised_usd", "Since the start, modelled: what was left out by kind of move, at what it would have been billed as, less what a move had to write again; fresh: what had never been sent.", "kind")
	m.provider = r.counterVec("provider_saved_usd_total", "What the provider's cache saved of what was forwarded, against a world without it. It is not tidemark's.", "route")
	m.reuse = r.counterVec("reuse_usd_total", "Modelled cost of what was left out and needed again: a call each, and the tokens once more.", "route")
	m.pricing = r.counterVec("removed_usd_total", "Modelled price of tokens at their first removal, on the request that removed them, by what they would have been billed as.", "route", "pricing")
	m.followed, _ = lru.New[string, *[3]float64](maxFollowed) // fails for sizes that are not positive
}

// saved counts what a response says was saved.
func (m *Metrics) saved(route string, v *pipeline.Observation) {
	m.net.WithLabelValues(route).Add(v.Net())
	m.provider.WithLabelValues(route).Add(max(0, v.Provider))
	a := v.Account
	if a == nil {
		return
	}
	m.by.WithLabelValues(route, "removal").Add(a.Removal)
	m.by.WithLabelValues(route, "levers").Add(a.Levers)
	if a.Reuse > 0 {
		m.reuse.WithLabelValues(route).Add(a.Reuse)
	}
	if a.First.USD > 0 {
		m.pricing.WithLabelValues(route, string(a.First.Basis())).Add(a.First.USD)
	}
}

// realise credits what a request saved by removal to the kinds of the moves that removed it.
func (m *Metrics) realise(o *pipeline.Outcome, v *pipeline.Observation) {
	a := v.Account
	if a == nil || a.First.USD == 0 && a.Again.USD == 0 && a.Rewrote == 0 {
		return
	}
	kind := kindOf(billedMove(o, v))
	m.followMu.Lock()
	defer m.followMu.Unlock()
	by := m.follow(o)
	m.realised.WithLabelValues(moveKinds[kind]).Add(a.First.USD - a.Rewrote)
	sum := by[0] + by[1] + by[2]
	switch {
	case a.Again.USD == 0:
	case sum <= 0:
		m.realised.WithLabelValues("unknown").Add(a.Again.USD)
	default:
		for i, n := range by {
			if n > 0 {
				m.realised.WithLabelValues(moveKinds[i]).Add(a.Again.USD * n / sum)
			}
		}
	}
	by[kind] += float64(max(0, a.First.Tokens()))
}

// kindOf is the place in moveKinds of what a request left out. A move for want of room is one into the cache.
func kindOf(move *pipeline.Move) int {
	switch {
	case move == nil:
		return 2
	case move.Kind == pipeline.Cold:
		return 0
	}
	return 1
}

// follow returns what is known of the moves of a request's conversation. A fork inherits what had left.
func (m *Metrics) follow(o *pipeline.Outcome) *[3]float64 {
	key := strings.Join([]string{o.Tenant, o.Session, lineage(o)}, " ")
	by, ok := m.followed.Get(key)
	if ok {
		return by
	}
	by = &[3]float64{}
	if o.Parent != 0 {
		if was, ok := m.followed.Get(strings.Join([]string{o.Tenant, o.Session, hexID(o.Parent)}, " ")); ok {
			*by = *was
		}
	}
	m.followed.Add(key, by)
	return by
}

// sessions are the metrics of what is in memory and in the store, and of what conversations came to.
type sessions struct {
	ratio  *prometheus.HistogramVec
	events *prometheus.CounterVec
}

// ratioBuckets are shares of a conversation's modelled bill that were saved; those below zero are its losers.
var ratioBuckets = []float64{-0.2, -0.1, -0.05, -0.02, -0.01, 0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5}

func (r registerer) sessions(m *Metrics) {
	m.ratio = r.histogramVec("session_net_ratio", "Net saving of a finished conversation as a share of its modelled baseline.", ratioBuckets, "route")
	m.events = r.counterVec("events_total", "Events by what became of them on their way to the event file.", "result")
}

// Finished counts a conversation that has ended: what it saved of its baseline, net.
func (m *Metrics) Finished(route string, netRatio float64) {
	m.ratio.WithLabelValues(m.routes.of(route)).Observe(netRatio)
}

// Events counts events by what became of them: a word of the event file's.
func (m *Metrics) Events(result string, n int) { m.events.WithLabelValues(result).Add(float64(n)) }

// Active has the gauges of sessions in memory ask count at every scrape: how many there are, and how many conversations had a
// request within the hour.
func (m *Metrics) Active(count func() (sessions, lineages int)) {
	m.Registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tidemark", Name: "sessions_active", Help: "Sessions in memory."},
			func() float64 { n, _ := count(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tidemark", Name: "lineages_active", Help: "Conversations in memory with a request within the last hour."},
			func() float64 { _, n := count(); return float64(n) }),
	)
}

// Stored has the metrics of the store ask at every scrape: how many bytes it takes, by kind, and how many originals gave way.
func (m *Metrics) Stored(size func() map[string]int64, evicted func() int64) {
	m.Registry.MustRegister(&storeSizes{size}, prometheus.NewCounterFunc(
		prometheus.CounterOpts{Namespace: "tidemark", Name: "originals_evicted_total", Help: "Originals that made room for others under the tenant's cap."},
		func() float64 { return float64(evicted()) }))
}

// storeSizes collects how many bytes the store takes.
type storeSizes struct{ size func() map[string]int64 }

var storeBytes = prometheus.NewDesc("tidemark_store_bytes", "Bytes that the state store takes, by kind.", []string{"kind"}, nil)

// Describe implements [prometheus.Collector].
func (s *storeSizes) Describe(to chan<- *prometheus.Desc) { to <- storeBytes }

// Collect implements [prometheus.Collector].
func (s *storeSizes) Collect(to chan<- prometheus.Metric) {
	for kind, n := range s.size() {
		to <- prometheus.MustNewConstMetric(storeBytes, prometheus.GaugeValue, float64(n), kind)
	}
}
