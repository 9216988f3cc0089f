package envoy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
)

func TestDbgDuplexDown(t *testing.T) {
	p := newProduct(t, "")
	p.through(t, func(c string) string {
		const hc = "    # One stream per request in flight"
		return strings.Replace(c, hc, `    health_checks: [{timeout: 0.5s, interval: 0.3s, no_traffic_interval: 0.3s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {}}]
    common_lb_config: {healthy_panic_threshold: {value: 0}}
`+hc, 1)
	})
	a := newAgent("x")
	c := envoytest.Client(t, true)
	try := func(what string) {
		a.step(runs(5))
		r := p.tick(t, a.at)
		_ = r
		x := &exchange{}
		func() {
			req, _ := newReq(t, p, a)
			res, err := c.Do(req)
			if err != nil {
				t.Log(err)
				return
			}
			_ = res.Body.Close()
			x.status = res.StatusCode
		}()
		t.Log(what, x.status)
	}
	try("up")
	p.tidemark.Kill(t)
	for range 12 {
		try("down")
		time.Sleep(60 * time.Millisecond)
	}
	p.tidemark.Start(t)
	for range 8 {
		try("up")
		time.Sleep(60 * time.Millisecond)
	}
}
