package openai

// rate is what tokens cost outside the cache, in USD per million.
type rate struct{ input, output float64 }

const (
	// writeFee is the price of a cache write in input tokens, on models that charge for writes.
	writeFee = 1.25
	// longPrompt is the size above which a prompt is a long one: all of it costs more.
	longPrompt = 272_000
	longInput  = 2.0
	longOutput = 1.5
)

// Units returns what a request costs, in uncached input tokens of the model's lowest price. It is 0 for a model that is not
// served.
func Units(id string, u Usage) float64 {
	m, known := lookup(id)
	if !known {
		return 0
	}
	in, out := 1.0, 1.0
	if m.long && u.Input+u.Read+u.Write > longPrompt {
		in, out = longInput, longOutput
	}
	input := float64(u.Input) + m.rho*float64(u.Read) + writeFee*float64(u.Write)
	return in*input + out*m.price.output/m.price.input*float64(u.Output)
}

// Bill returns what a request costs in USD, output included. It is 0 for a model that is not served.
func Bill(id string, u Usage) float64 {
	m, _ := lookup(id) // a model that is not served has no price
	return Units(id, u) * m.price.input / 1e6
}

// Cost returns the price of a request's input in the units of [Units]; output is not part of it.
func (s *Sim) Cost(rec Received) float64 {
	u := rec.Usage
	u.Output = 0
	return Units(rec.Model, u)
}
