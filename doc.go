// Package freshet moves bulk data to every node of a cluster at the speed the
// network allows: nodes read an object from its store between them and pass it
// on, until it is whole and verified on the disk of each.
//
// # The idea
//
// N nodes each need the same F bytes before a computation starts. If each
// downloads them by itself, N·F bytes leave the store, and the job waits for
// the node whose connection happened to be slow. Chiba, Kielmann, den Burger
// and Matsuoka ("Dynamic Optimization for Large Data Broadcast on Clouds", IPSJ
// Trans. ACS, 2010) let the nodes share the download out instead:
//
//	store ──┬── pieces    0 …  3199 ──▶ node A ──┐
//	        ├── pieces 3200 …  6399 ──▶ node B ──┼── exchange ──▶ everything, everywhere
//	        └── pieces 6400 …  9599 ──▶ node C ──┘
//
// Each node reads its share from the store. One that has finished takes over
// half of what a slower one has still before it (steal), and all the while
// pieces can pass from node to node until every node has every piece. The
// store delivers F bytes in all, over the sum of the nodes' connections; flat,
// non-steal and steal are the three algorithms of the paper, and docs/papers.md
// says claim by claim where each stands in the code and what we measured.
//
// # In a program
//
// The package is imported as github.com/freshet/freshet. Start makes this process a node: the
// cluster's control plane, an agent that takes part in jobs, or both. Connect is for who wants something
// brought to the nodes: Client.Submit hands a broadcast in, Client.Watch follows it. The example has
// all of it; the command freshet is made of the same.
//
// # The code
//
// Rules are packages of values and functions that touch nothing of the world:
// unit, piece, topo, steal, exchange, planner, sim. Time and randomness come in as arguments, so
// the same code runs in a table test, in a simulation and in production.
// World packages do the I/O that a library user needs: objstore and its
// drivers. Engines (internal/swarm, control, peer, landing) are loops that take
// an event, ask the rule and carry out the answer; the rest of internal is what
// rules, engines and the binary share. Which packages there are, which may
// import which, and that rules are pure, is written down and tested in
// deps_test.go.
//
// docs/tour.md follows one piece from the bucket to the disk of a node;
// docs/glossary.md has the words.
package freshet
