// Package filtertest is the test kit that every filter gets for free. docs/new-filter.md shows how a filter is made with it.
//
// [Run] is a filter's whole test. It checks that
//
//   - the vectors of its testdata say what they are said to say, and show every gate, every key of its own and every value that
//     a key refuses; the common keys and their gates are tried without;
//   - its proposals keep the contract of package filters: one for each open result, gates of the closed list or constants of
//     its own package, words that metrics and markers can carry;
//   - it is a pure function of the view (invariant 16), whatever functions of the view are nil, and a memo changes nothing;
//   - nothing becomes larger: each replacement is written by the function that the engine writes it with, and read back;
//   - doc.go lists the keys with their defaults and the gates as they are;
//   - a turn with nothing new costs next to nothing, and one on which everything is open no more than a few allocations a result.
//
// Contract, purity, size and common keys are checked on every vector and on drawn views. [Vectors] runs vectors that lie
// elsewhere, [Benchmark] measures, [Gates] reads the gates that a package declares. The form of a vector is explained in
// testdata/README.md. With the flag -update goldens are rewritten instead of compared; where the environment variable CI is set
// the flag is refused. [Sessions] draws transcripts as structures for property tests, so that a test can work out by itself what
// a filter must say of them.
package filtertest
