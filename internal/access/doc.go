// Package access decides who comes in at tidemark's listeners, and is what all of its HTTP listeners share.
//
// The one rule: a listener that others than this machine can reach asks for a credential, and no credential ever leaves: not in a
// log line, not in an error, not in an answer. [Local] says which listeners need none.
//
// A [Server] serves one HTTP listener: it bounds headers, bodies and time, the requests of a client and those of all, asks for a
// bearer token ([Tokens]) or a client's certificate ([Certificates]), and contains panics. What it refuses it answers with
// [Refuse] and counts by a word of a closed list. [Certificates] serve gRPC as well.
//
// Tokens and certificates come from files, which are looked at again whenever somebody knocks, so that a rotation needs no
// restart. A file that cannot be used any more changes nothing: the last good one stays, and the log says so once.
// [ReadSecret] and [ReadKeys] read the store's secrets, once.
//
// Everything is safe for concurrent use. A request costs a stat of each file and a hash of its token.
package access
