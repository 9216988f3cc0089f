package replay

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/filters"
	"github.com/tidemark-dev/tidemark/internal/bill"
	"github.com/tidemark-dev/tidemark/pipeline"
)

// Report is what became of one session, or of several together, under one policy.
type Report struct {
	Session      string         `json:"session"`
	Policy       string         `json:"policy"`
	Model        string         `json:"model,omitempty"`
	BilledAs     string         `json:"billed_as,omitempty"` // the model whose prices stand in: nobody knows those of Model
	Unbounded    bool           `json:"unbounded,omitempty"` // the provider caches by itself, and nobody knows for how long at most: nothing is ever cold
	Requests     int            `json:"requests"`
	TokensIn     int            `json:"tokens_in"`  // o200k tokens of all bodies as they came
	TokensOut    int            `json:"tokens_out"` // and as they were forwarded
	BytesIn      int            `json:"bytes_in"`
	BytesOut     int            `json:"bytes_out"`
	Decisions    map[string]int `json:"decisions"` // by filter
	Holds        int            `json:"holds"`
	Matured      int            `json:"matured"`
	Gates        map[string]int `json:"gates"` // by filter.gate; a request's own gate has no filter
	Moves        int            `json:"moves"`
	MovedTokens  int            `json:"moved_tokens"`
	Undeclared   int            `json:"undeclared"`
	Desyncs      int            `json:"desyncs"`
	EngineMicros int64          `json:"engine_us"` // time inside the engine, all requests together

	PassThrough bill.Bill      `json:"pass_through"` // modelled, of the bodies as they came
	Bill        bill.Bill      `json:"bill"`         // and as they were forwarded
	Ratio       float64        `json:"ratio"`        // of the units of the two, over the requests that both were billed for
	NetRatio    float64        `json:"net_ratio"`    // with Reuse.Penalty
	Reuse       Reuse          `json:"reuse"`
	Losses      map[string]int `json:"losses"`    // tokens paid for again, by cause
	Misjudged   map[string]int `json:"misjudged"` // requests in which the provider contradicted what was expected
	MoveList    []*Move        `json:"move_list,omitempty"`
	Calibration *Calibration   `json:"calibration,omitempty"`
	Recorded    *Agreement     `json:"recorded,omitempty"` // nil where the recording holds no usage

	Turns []Turn `json:"-"`

	compared compared
}

// compared are the bills of the requests that were billed on both sides. A refusal is free, and must not make a policy cheaper
// than one that the provider went on serving.
type compared struct{ passThrough, policy bill.Bill }

func (c *compared) join(o *compared) {
	c.passThrough.Join(&o.passThrough)
	c.policy.Join(&o.policy)
}

// Agreement compares the modelled bill of pass-through with the recorded one, over the requests that have usage.
type Agreement struct {
	Requests int     `json:"requests"`
	Units    float64 `json:"units"`    // recorded
	Modelled float64 `json:"modelled"` // of the same requests
	Error    float64 `json:"error"`    // Modelled / Units - 1
	ReadGap  float64 `json:"read_gap"` // modelled minus recorded share of cache reads
}

func newReport(session, policy string) *Report {
	return &Report{
		Session: session, Policy: policy, Decisions: map[string]int{}, Gates: map[string]int{}, Losses: map[string]int{},
		Misjudged: map[string]int{},
	}
}

// decided books what the engine did to one request.
func (r *Report) decided(o *pipeline.Outcome) {
	r.Requests++
	r.BytesIn += o.BytesIn
	r.BytesOut += o.BytesOut
	r.EngineMicros += o.Duration.Microseconds()
	for _, d := range o.New {
		switch {
		case d.Hold:
			r.Holds++
			continue
		case d.Matured:
			r.Matured++
		}
		r.Decisions[d.Filter]++
	}
	for g, n := range o.Gates {
		r.Gates[gateName(g.Filter, g.Gate)] += n
	}
	if o.Move != nil {
		r.Moves++
		r.MovedTokens += o.Move.Tokens
	}
	if o.Undeclared {
		r.Undeclared++
	}
	if o.Desync {
		r.Desyncs++
	}
}

// observed books what the engine made of the response.
func (r *Report) observed(o *pipeline.Observation) {
	if o.Loss != nil {
		r.Losses[string(o.Loss.Cause)] += o.Loss.Tokens
	}
	for name, so := range map[string]bool{
		"cold": o.ColdMisjudged, "lift": o.LiftMisjudged, "ineffective": o.Ineffective, "brake": o.Braked,
	} {
		if so {
			r.Misjudged[name]++
		}
	}
}

// Untouched reports whether every request was side traffic, as all are that have no tools.
func (r *Report) Untouched() bool {
	return r.Requests > 0 && r.Gates[string(filters.SideRequest)] == r.Requests
}

func gateName(filter string, gate filters.Gate) string {
	if filter == "" {
		return string(gate)
	}
	return filter + "." + string(gate)
}

// ratios fills in what is worked out from the bills.
func (r *Report) ratios() {
	c := &r.compared
	r.Ratio = c.policy.Over(&c.passThrough)
	net := c.policy
	net.Units += r.Reuse.Penalty
	r.NetRatio = net.Over(&c.passThrough)
}

// Sum adds up the reports of several sessions under one policy.
func Sum(reports []*Report) *Report {
	t := newReport(fmt.Sprintf("%d sessions", len(reports)), "")
	for _, r := range reports {
		t.Policy = r.Policy
		t.Requests += r.Requests
		t.TokensIn += r.TokensIn
		t.TokensOut += r.TokensOut
		t.BytesIn += r.BytesIn
		t.BytesOut += r.BytesOut
		t.Holds += r.Holds
		t.Matured += r.Matured
		t.Moves += r.Moves
		t.MovedTokens += r.MovedTokens
		t.Undeclared += r.Undeclared
		t.Desyncs += r.Desyncs
		t.EngineMicros += r.EngineMicros
		t.PassThrough.Join(&r.PassThrough)
		t.Bill.Join(&r.Bill)
		t.compared.join(&r.compared)
		t.Reuse.join(&r.Reuse)
		addCounts(t.Decisions, r.Decisions)
		addCounts(t.Gates, r.Gates)
		addCounts(t.Losses, r.Losses)
		addCounts(t.Misjudged, r.Misjudged)
	}
	t.ratios()
	return t
}

func addCounts(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

// Spread is how the ratios of the sessions lie: the best, the median and the worst session.
func Spread(reports []*Report) *bill.Spread {
	var points []bill.Point
	for _, r := range reports {
		if r.PassThrough.Requests > 0 {
			points = append(points, bill.Point{Session: r.Session, Value: r.Ratio})
		}
	}
	return bill.SpreadOf(points)
}

// Errors is how far the modelled bills of pass-through lie from the recorded ones: signed, and without their signs.
func Errors(reports []*Report) (signed, size *bill.Spread) {
	var points, sizes []bill.Point
	for _, r := range reports {
		if r.Recorded != nil {
			points = append(points, bill.Point{Session: r.Session, Value: r.Recorded.Error})
			sizes = append(sizes, bill.Point{Session: r.Session, Value: max(r.Recorded.Error, -r.Recorded.Error)})
		}
	}
	return bill.SpreadOf(points), bill.SpreadOf(sizes)
}
