// Package badgerdb is a store on the disk of one process, on Badger.
//
// It keeps the contract of [state.Store]. One process, one handle: a second [Open] of the same directory fails. Replicas
// that have to share state need another store.
//
// Keys are made of digests only:
//
//	b ‖ tenant ‖ session ‖ branch id            a branch
//	s ‖ tenant ‖ session                        the session's stamp
//	h ‖ tenant ‖ two messages ‖ session         a session that began with these messages
//	o ‖ SHA-256 of the id                       an original
//	u ‖ SHA-256 of the id                       the session that the original belongs to
//	i ‖ tenant ‖ session ‖ SHA-256 of the id    the original's listing: all but its content, and when it was last used
//	w ‖ SHA-256 of the id                       note that the original was withdrawn and its bytes are still in the files
//	k                                           the server's secret
//	l                                           the layout: 1 once all originals have listings, 2 once all have owners
//
// A record is one byte of schema version and the CBOR of the value, in a zstd frame where that is worth it. One that cannot
// be read counts as absent: it is counted and logged once, without its content.
//
// Durability: Commit writes originals and syncs, then branch, stamp and head in one transaction, and syncs again. So
// whatever is stored of a decision after a crash, its original is there. Commits that come together share a sync. Merge
// leaves syncing to the operating system; a process that is killed loses nothing, a machine that goes down may lose merges.
//
// Opening reads all tables, which takes seconds for a store of gigabytes: Badger itself takes their form on trust and ends
// the process over a damaged one. Below a reserve of free space nothing is written, for the same reason.
//
// Every write of a branch renews its time to live, and the originals of its decisions and its cut always live at least as
// long. Reading an original renews it, too.
//
// What is withdrawn is a tombstone at once, which no reader gets past. Its bytes leave the files within ten minutes, or when
// the store is closed; those of an original of a megabyte or more, which Badger keeps apart, within ten minutes of running.
// Other calls wait a moment while that is done. What was evicted, replaced or has expired leaves the files whenever Badger
// merges them.
package badgerdb
