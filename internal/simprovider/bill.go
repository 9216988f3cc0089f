package simprovider

// rate is what tokens cost outside the cache, in USD per million.
type rate struct{ input, output float64 }

// Prices of cache writes in input tokens.
const (
	writeShort = 1.25
	writeLong  = 2.0
)

// Units returns what a request costs, in uncached input tokens of the model's lowest price: reads at the model's rate, writes
// at 1.25 for five minutes and 2.0 for an hour, output at its price. A prompt above the model's tier pays the higher price for
// all of its tokens. It is 0 for a model that is not served.
func Units(id string, u Usage) float64 {
	m, known := lookup(id)
	if !known {
		return 0
	}
	price := m.price
	if m.tier > 0 && u.Input+u.Read+u.Write5m+u.Write1h > m.tier {
		price = m.above
	}
	input := float64(u.Input) + m.rho*float64(u.Read) + writeShort*float64(u.Write5m) + writeLong*float64(u.Write1h)
	return price.input/m.price.input*input + price.output/m.price.input*float64(u.Output)
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
