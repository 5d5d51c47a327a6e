// Package cluster runs a Freshet cluster in a laboratory: a store, a control
// plane and agents, each the real binary in a process of its own on a host of
// the lab. Benchmarks and the fault suite stand on it.
//
//	Dir/
//	  s3/b/            the store's one bucket
//	  HOST/state       of the agent there; Dir/hub of the control plane
//	  HOST/data        its root: where jobs may write
//	  log/NAME         what a process said
//
// The addresses are fixed, since a host of a lab has its ports to itself: the
// store listens on 9000, the control plane on 7433, agents on 7434.
package cluster
