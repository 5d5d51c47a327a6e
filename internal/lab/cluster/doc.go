// Package cluster runs a Freshet cluster: a store, a control plane and agents, each
// the real binary in a process of its own, on a host of a laboratory or, without one, on
// this machine's loopback. Benchmarks, the fault suite and the binary's own tests stand on it.
//
//	Dir/
//	  s3/b/            the store's one bucket
//	  HOST/state       of the agent there; Dir/hub of the control plane
//	  HOST/data        its root: where jobs may write
//	  log/NAME         what a process said
//
// In a lab the addresses are fixed, since a host there has its ports to itself: the
// store listens on 9000, the control plane on 7433, agents on 7434. On loopback each
// takes a free port, and keeps it when it is restarted.
package cluster
