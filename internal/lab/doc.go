// Package lab builds real networks on one Linux machine: hosts, switches, and
// links with a rate and a finite buffer in each direction, with delay, with
// loss, and with faults while they run. What is fast on loopback proves
// nothing; here a transfer meets the limits it will meet in a cluster, and the
// kernel's own TCP meets them.
//
// A [Spec] says what is wanted, [Up] builds it, [New] does so in a test.
// Command freshet-lab does it for people. What is built out of what:
//
//	 namespace fl4711.1-n0       namespace fl4711.1 (all switches)     namespace fl4711.1-n1
//	┌─────────────────────┐     ┌─────────────────────────────────┐    ┌────────────────────┐
//	│ processes, sockets  │     │            bridge sw            │    │                    │
//	│ 10.64.0.1           │     │        ┌─────────────┐          │    │  10.64.0.2         │
//	│ interface sw ─ tbf ─┼──►──┼─ 0b.n0 ┤             ├ 1b.n1    │    │  interface sw      │
//	│        ▲            │     │   tbf  └─────────────┘  tbf ────┼──►─┼─                   │
//	└────────┼────────────┘     └────┼────────────────────────────┘    └────────────────────┘
//	         └───────────◄───────────┘
//
// A host is a network namespace with a name, as `ip netns` makes them (so `ip
// netns exec fl4711.1-n0 COMMAND` works), and with the host's name as its
// hostname. All switches are bridges in one further namespace; in the
// namespace that the owner came from nothing is made at all. A link is a veth
// pair, and each of its ends has a token bucket (tbf) on what leaves there: A's
// end has the rate A→B, B's end the rate B→A. The bucket's queue is the link's
// buffer, which drops what does not fit, as the port of a switch does.
//
// A link with delay or loss is two TAP devices in place of the veth pair, and
// between them a thread for each direction in the owner's process, which hands
// each packet on when its time has come; see wire. Such a link carries less (10
// Gbit/s in large packets, 1 Gbit/s in single ones), and it stands still if
// the owner is stopped.
//
// What is counted. A rate is that of Ethernet frames without preamble and
// check sequence, as tbf counts them: of each 1514 bytes, 1448 are TCP's
// payload. Buffers are bytes of such frames: what a burst finds on a link that
// rests. The token bucket is a part of that, an eighth at most, and of a link
// that is busy already it is spent: that much less can wait there. [Lab.Traffic] tells what each
// direction of a link has carried, dropped and lost, and what the machine was
// too busy for: a measurement with some of that is one of the machine.
//
// What is random, which packets are lost, is drawn from the spec's seed.
//
// Large packets. The kernel hands TCP's data down in packets of up to 64 KiB,
// and splits them late. A buffer of 64 KiB would hold one, where a real one
// holds 43 frames. So no packet may be larger than half the bucket, which is an
// eighth of the buffer, and where that is below 8 KiB hosts send single frames.
//
// Faults are silent. A link that is cut keeps its carrier, as one behind
// another switch would: nothing tells a host, packets just do not arrive.
//
// Nothing stays behind. Processes die with the thread that started them, which
// lives as long as the lab. Namespaces carry their owner's process id in their
// names; what an owner left that died is removed by the next Up, or by
// [Sweep].
//
// The cost: 2 cores carry about 16 hosts at 100 to 500 Mbit/s each, or 32 at 50;
// beyond that the processor is what one measures.
package lab
