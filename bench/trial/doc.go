// Package trial is one run of an experiment that brings objects from a store to all nodes: a laboratory of networks, a store with
// the objects, a directory for each node and control groups, all of them new and gone afterwards. What brings them is Freshet, whose
// agents are then up beforehand, or other programs.
//
//	/dev/shm/NAME-PID-…/
//	  s3/b/OBJECT       in the store
//	  NODE/data/OBJECT  where the node's is to stand
//	  NODE/done         made when it is there, complete and synced, by programs that are not Freshet
//	  log/HOST-N        what the N-th program said
//
// What is measured is the experiment's own. What is alike is here: that each process is in a group, which counts its processor
// time and ends it; that programs are Debian's; that files lie in pages which this machine owns; and that what they hold is compared with the objects.
package trial
