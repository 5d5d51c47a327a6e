// Package control is the control plane: who is in the cluster, which jobs
// there are, and how far they have got. No piece and no message about a piece
// passes through it, and a running job survives its death.
//
//	Client (admin) ──┐                       ┌── buckets: jobs, nodes, tokens (on disk), members (memory)
//	Agent  (node)  ──┼── TLS ── pipe ── NATS ┤
//	Agent  (node)  ──┘                       └── Hub: one loop a job around a pure state machine (machine.go)
//
// The Hub embeds a NATS server that listens nowhere. Whoever has a certificate
// of the cluster reaches it over the process's one TCP port: the hub puts a
// pipe between the TLS connection and an in-process NATS connection, and fills
// in who that is (pipe.go), so clients have no NATS credentials, and nobody can
// claim to be somebody else. Only the hub talks to JetStream, in its own server
// or in a cluster of the user's (Config.NATS).
//
// A connection of ALPN peer.ProtocolControl begins with one line from the hub, "+OK" or
// "-ERR number text", ended by "\n" and at most 1 KiB long; after "+OK" it
// speaks the NATS client protocol. These are the subjects. NAME is a node's
// name, which is one label, so it is one token of a subject.
//
//	subject              from → to       what
//	up.NAME.register     node → hub      request: Registration; answer: nothing or an error
//	up.NAME.beat         node → hub      request, 1 Hz: beat; answer: beatAnswer
//	up.NAME.status       node → hub      report, at most 5 Hz while something changes
//	up.NAME.renew        node → hub      request: renewRequest; answer: renewAnswer
//	up.NAME.revoked      node → hub      request: nothing; answer: revocations
//	down.NAME.stat       hub → node      request: Spec; answer: Source
//	down.NAME.prepare    hub → node      request: Job; answer: prepared
//	down.NAME.start      hub → node      request: start; answer: nothing
//	down.NAME.cancel     hub → node      request: stop; answer: nothing
//	down.NAME.check      hub → node      request: CheckRequest; answer: NodeCheck
//	down.NAME.probe      hub → node      request: ProbeStep; answer: NodeProbe
//	down.NAME.recording  hub → node      request: chunk; answer: bytes, and the header Freshet-End on the last
//	api.VERB             admin → hub     request and answer: see api.go
//	watch.job.ID         hub → admin     Job, at most 4 Hz
//	_INBOX.ROLE.NAME.>   hub → both      answers
//
// A node may publish only below up.NAME and to answer what it was asked, and
// subscribe only below down.NAME and its inbox; an admin only api and watch.
// Bodies are JSON. An answer that is an error has the header Freshet-Error,
// "number text"; the numbers are in errors.go.
//
// What agents report are whole snapshots, repeated, so a lost or doubled one
// does no harm. A final status is repeated until the hub has it on its disk; with it
// comes how the part went (account.Course), which a hub that dies meanwhile forgets.
package control
