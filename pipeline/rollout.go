package pipeline

import (
	"encoding/binary"

	"github.com/tidemark-dev/tidemark/filters"
)

// drawn reports whether the session is in a share of all sessions. It is drawn once, by a keyed digest of the session: it is the same
// on every replica and after a restart, and a share that grows keeps who was in it. Shares of another name are drawn for themselves.
func (p *pass) drawn(name string, share float64) bool {
	if share <= 0 || share >= 1 {
		return share >= 1
	}
	key := &p.sess.key
	digest := sum(p.e.secret, name, key.Tenant[:], key.Session[:])
	return float64(binary.BigEndian.Uint64(digest)>>11)/(1<<53) < share
}

// heldOut reports whether the session belongs to the group that all others are compared with.
func (p *pass) heldOut() bool { return p.drawn("holdout", p.r.Config.Holdout) }

// Groups of sessions, on routes that hold some out or roll out to a share.
const (
	GroupActive   = "active"   // what the route asks for is done
	GroupWithheld = "withheld" // the rollout has not reached them: they are metered
	GroupHoldout  = "holdout"  // nothing is done, so that the others can be compared with them
)

// group is the group of the request's session, empty where the route has but one.
func (p *pass) group() string {
	c := p.r.Config
	switch {
	case c.Holdout == 0 && c.Withheld == 0:
		return ""
	case p.heldOut():
		return GroupHoldout
	case !p.drawn("rollout", 1-c.Withheld):
		return GroupWithheld
	}
	return GroupActive
}

// shadows reports whether what would have been done is metered: in mode shadow, and of sessions that the rollout has not reached. gate is
// that of the request.
func (p *pass) shadows(gate filters.Gate) bool {
	return p.side == "" && (p.r.Config.Mode == Shadow && !p.heldOut() || gate == filters.Rollout)
}
