package pipeline

import (
	"encoding/binary"

	"github.com/tidemark-dev/tidemark/filters"
)

// drawn reports whether the session is in a share of all sessions. It is drawn once, by a keyed digest of the session: it is the same
// on every replica and after a restart, and a share that grows keeps who was in it. Shares of another name are drawn for themselves.
func (p *pass) drawn(name string, share float64) bool {
	key := &p.sess.key
	digest := sum(p.e.secret, name, key.Tenant[:], key.Session[:])
	return float64(binary.BigEndian.Uint64(digest)>>11)/(1<<53) < share
}

// heldOut reports whether the session belongs to the group that all others are compared with.
func (p *pass) heldOut() bool { return p.drawn("holdout", p.r.Config.Holdout) }

// shadows reports whether what would have been done is metered: in mode shadow, and of sessions that the rollout has not reached.
func (p *pass) shadows() bool {
	return p.side == "" && (p.r.Config.Mode == Shadow && !p.heldOut() || p.requestGate() == filters.Rollout)
}
