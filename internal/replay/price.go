package replay

import (
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
)

// price is what the input of one request costs: in units of one uncached input token by the simulator's facts, which share
// nothing with the engine's, and in USD by the price table.
func price(model string, u *pipeline.Usage) (units, usd float64) {
	if u == nil {
		return 0, 0
	}
	units = simprovider.Units(model, simprovider.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h})
	r := cache.Prices().Lookup(model).Rates(u.Prompt())
	usd = float64(u.Input)*r.Input + float64(u.Read)*r.Read + float64(u.Write5m)*r.Write5m + float64(u.Write1h)*r.Write1h
	return units, usd / 1e6
}

// tokenPrices are the prices of one token in units, in the request with this usage.
func tokenPrices(model string, u *pipeline.Usage) (read, write float64) {
	read, _ = price(model, &pipeline.Usage{Read: 1})
	paid := &pipeline.Usage{Write5m: u.Write5m, Write1h: u.Write1h}
	write, _ = price(model, paid)
	if n := paid.Prompt(); n > 0 {
		return read, write / float64(n)
	}
	return read, 1
}
