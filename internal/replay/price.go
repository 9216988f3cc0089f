package replay

import (
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/openai"
	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// tariff is what requests of one model are billed by.
type tariff struct {
	format transcript.Format
	model  string
}

// tariff is the request's, for the model that answered it.
func (r *Request) tariff(model string) tariff { return tariff{r.wire.Format, model} }

// price is what the input of one request costs: in units of one uncached input token by the simulator's facts, which share
// nothing with the engine's, and in USD by the price table.
func (t tariff) price(u *pipeline.Usage) (units, usd float64) {
	if u == nil {
		return 0, 0
	}
	if openAI(t.format) {
		units = openai.Units(billedAs(t.model), openai.Usage{Input: u.Input, Read: u.Read, Write: u.Write5m + u.Write1h})
	} else {
		units = simprovider.Units(t.model, simprovider.Usage{Input: u.Input, Read: u.Read, Write5m: u.Write5m, Write1h: u.Write1h})
	}
	r := t.rates(u)
	usd = float64(u.Input)*r.Input + float64(u.Read)*r.Read + float64(u.Write5m)*r.Write5m + float64(u.Write1h)*r.Write1h
	return units, usd / 1e6
}

// rates are the prices of the request with this usage, in USD per million tokens.
func (t tariff) rates(u *pipeline.Usage) cache.Rates {
	return cache.Prices().Lookup(t.model).Rates(u.Prompt())
}

// tokens are the prices of one token in units, in the request with this usage.
func (t tariff) tokens(u *pipeline.Usage) (read, write float64) {
	read, _ = t.price(&pipeline.Usage{Read: 1})
	paid := &pipeline.Usage{Write5m: u.Write5m, Write1h: u.Write1h}
	write, _ = t.price(paid)
	if n := paid.Prompt(); n > 0 {
		return read, write / float64(n)
	}
	return read, 1
}
