// Package filtertest is the test kit that every filter gets for free.
//
// [Run] runs a filter's vectors (testdata/*.txtar of its package), checks that its doc.go tells the truth about keys and
// gates, that every gate has a vector, that its proposals keep the contract of package filters, and that a turn with nothing
// new costs next to nothing. [Pure] checks invariant 16 on drawn sessions. [Vectors] runs vectors that lie elsewhere.
//
// The form of a vector is explained in testdata/README.md. With the flag -update goldens are rewritten instead of compared;
// where the environment variable CI is set the flag is refused. [Sessions] draws transcripts as structures for property
// tests, so that a test can work out by itself what a filter must say of them.
package filtertest
