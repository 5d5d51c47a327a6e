// Package planner plans many transfers at once on a known network: who sends
// what to whom, at which rate, such that as much as can be arrives everywhere together.
// It is the planner of Takahashi, Taura and Chikayama, "A Data Transfer
// Scheduler Selecting Sources by Using Topology Information", and goes on from there to the
// optimum, with a proof.
//
//	transfer x: sources h1 h2, destinations h3 h4 h5
//
//	h1 ══300══> h3 ──300──> h4        a plan is flows: pipelines of hosts at a rate.
//	h2 ══500══> h5 ──500──> h4        Each destination writes, and passes on what it gets;
//	                                  one that is in several flows gets other bytes from each.
//
// Throughput is the sum over all destinations of the bytes that arrive in a second. What limits it is the capacities
// of the links; a pipeline takes its rate from each link once for every time that it crosses it.
//
// # How
//
// One linear program gives all pipelines their rates (internal/lp). Which pipelines:
//
//   - the widest ones of each transfer by itself: the paper's growth over links (paper.go), or over
//     routes where these are fixed (overlay.go), or the exact ones on trees (exact.go). With fair rates
//     (fill.go) that is a first plan, in milliseconds.
//   - the paper then plans one transfer after the other anew on what the others leave (replan).
//   - column generation (colgen.go): at the prices that the program sets on links, the pipelines
//     that are worth more than they cost are found and added, until there are none. On trees they are found exactly (price.go), and
//     elsewhere for transfers of few destinations (legs.go), so that the prices prove a bound on every plan there is. The optimum on 400 hosts takes a second. While there are few
//     pipelines prices are approximate, by a first-order method (firstorder.go).
//     For many destinations on networks with cycles they are found greedily, and what is proved is that not even trees of copies would have more (dualascent.go).
//
// Where the paper's text is wrong or open, the code says so where it departs from it.
//
// # Fairness
//
// Throughput alone starves those behind thin links. Theta is the largest rate that all pairs of a transfer and
// a destination can have at once, the maximum concurrent flow (concurrent.go); a share of it (Options.Floor) is kept for each pair, as rows of the program, whose optimum is again
// proved. Weights count in the objective. Priorities are planned one after the other: what a class has reached becomes a row of the program of the next. Max-min
// fairness is a program for each level (maxmin.go).
//
// Who has next to nothing is starved (Negligible), and Explain says of everybody which link holds them back, and what other sources would give.
//
// # Changes
//
// Transfers come and go, and links become wider and narrower: Add, Remove, SetRate. Programs keep their pipelines and their bases, and go on from there; few exchanges give a plan
// that holds the floor again and is nearly as good as the one that comes in the end (kept.go). With weights or priorities, and when a rate becomes 0 or was 0, programs begin anew,
// with the pipelines of the last plan.
//
// # Purity
//
// The package reads no clock and no file, and draws from the seed that it is given. Whoever has little time calls Step as often as
// there is time for, ends one that takes long (Options.Enough), and takes the Plan as it is then.
package planner
