package identity

import (
	"strings"

	"github.com/tidwall/gjson"
)

// FromBody returns the session that a body names, "" if it names none: the first that is usable of
//
//	metadata.user_id  where it holds a session, as Claude Code's does
//	session_id        OpenRouter, Cline
//	prompt_cache_key  OpenAI: requests with one key are meant to share a cache
//	metadata.user_id  whole: requests of one user are then one session, and its branches keep conversations apart
//
// Each is the text of the member, empty without one.
func FromBody(userID, cacheKey, sessionID string) string {
	session, named := sessionIn(userID)
	if named {
		userID = ""
	}
	for _, id := range []string{session, sessionID, cacheKey, userID} {
		if id := usable(id); id != "" {
			return id
		}
	}
	return ""
}

// sessionIn finds the session in a metadata.user_id. Claude Code writes a JSON object with session_id, and wrote
// user_<hash>_account_<uuid>_session_<uuid> before. named reports that there is one, even if it is not usable.
func sessionIn(userID string) (id string, named bool) {
	if strings.HasPrefix(userID, "{") && len(userID) <= maxMetadata && gjson.Valid(userID) { // it recurses as deep as the text nests
		if s := gjson.Get(userID, "session_id"); s.Type == gjson.String && s.Str != "" {
			return s.Str, true
		}
	}
	if strings.HasPrefix(userID, "user_") {
		if i := strings.LastIndex(userID, "_session_"); i >= 0 {
			if s := usable(userID[i+len("_session_"):]); s != "" {
				return s, true
			}
		}
	}
	return "", false
}
