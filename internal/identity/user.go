package identity

import (
	"strings"

	"github.com/tidwall/gjson"
)

// FromUserID returns the session that a body's metadata.user_id names, "" if it names none.
//
// Claude Code writes a JSON object with session_id, and wrote user_<hash>_account_<uuid>_session_<uuid> before. Any other
// text is taken whole: requests of one user are then one session, and its branches keep conversations apart.
func FromUserID(userID string) string {
	if strings.HasPrefix(userID, "{") && gjson.Valid(userID) {
		if s := gjson.Get(userID, "session_id"); s.Type == gjson.String && s.Str != "" {
			return usable(s.Str)
		}
	}
	if strings.HasPrefix(userID, "user_") {
		if i := strings.LastIndex(userID, "_session_"); i >= 0 {
			if s := usable(userID[i+len("_session_"):]); s != "" {
				return s
			}
		}
	}
	return usable(userID)
}
