// Package state holds what tidemark remembers of a conversation, and the contract of the store that keeps it.
//
// A session is what the session header names; a [Branch] is one conversation within it as the provider may have cached it.
// A [Decision] is bytes that stand for a result on a branch, from now on. [Original] is what those bytes stand for.
//
// The unit of durability is the move: originals first, then the branch with its decisions in one transaction, then sync
// ([Store.Commit]). All else (chain, frontier, entries, clock) may lag and is merged lazily ([Store.Merge]); a lost lazy
// write makes tidemark do less, never something else.
//
// The package is a leaf (it knows [cache.Entry], nothing more). Values that a store returns belong to the caller.
package state
