// Package badgerdb is a store on the disk of one process, on Badger.
//
// It keeps the contract of [state.Store]. One process, one handle: a second [Open] of the same directory fails. Replicas
// that have to share state need another store.
//
// Keys are made of digests only:
//
//	b ‖ tenant ‖ session ‖ branch id        a branch
//	s ‖ tenant ‖ session                    the session's stamp
//	h ‖ tenant ‖ two messages ‖ session     a session that began with these messages
//	o ‖ SHA-256 of the id                   an original
//	k                                       the server's secret
//
// A record is one byte of schema version and the CBOR of the value. One that cannot be read counts as absent: it is
// counted and logged once, without its content.
//
// Durability: Commit writes originals and syncs, then branch, stamp and head in one transaction, and syncs again. So
// whatever is stored of a decision after a crash, its original is there. Merge leaves syncing to the operating system;
// a process that is killed loses nothing, a machine that goes down may lose merges.
//
// Opening reads all tables, which takes seconds for a store of gigabytes: Badger itself takes their form on trust and ends
// the process over a damaged one. Below a reserve of free space nothing is written, for the same reason.
//
// Every write of a branch renews its time to live, and the originals of its decisions always live at least as long.
package badgerdb
