// Package s3serve is a directory served as an S3 store by this process: what
// stands behind "freshet s3" and the demo, and what benchmarks read from. The
// server is versitygw's (its S3 API over its posix backend, as a library); what
// is ours is how a file is pinned to a version, and the rates.
//
//	client ◄── TCP ── conn: rates, counts ◄── sendfile ── file
//	   └────► fasthttp ─► versitygw S3 API ─► bucket (pins, opens) ─► posix ─► Dir/BUCKET/KEY
//
// A directory in Dir is a bucket and a file in it is an object, whether it came
// by PUT or was simply put there.
//
// # What is an object
//
// A regular file below Dir. A symbolic link stands for what it leads to as long as
// that is below Dir, and relative; one that leads out, a pipe, a socket or a device is
// refused with a line that says so, and left out of lists. Nothing is written or removed through
// a link that leads out. (The library looks at a file before we open it ourselves:
// who can change Dir meanwhile can have it look at another, but not send that.)
//
// # Versions
//
// versitygw keeps an object's ETag and checksum in extended attributes, written
// by PUT; a file that was dropped in has none, and one that was overwritten in
// place keeps those of its former content. So an ETag is kept here together
// with the size and modification time of the file it was made for, and one
// that does not fit, or is absent, is replaced by one made of inode, size and
// time, as Apache's file server does it, with no checksum. If-Match works on
// GET and HEAD with both kinds, and is checked against the very file that is
// then sent. Where the file system has no extended attributes, they are kept as
// files in a directory beside Dir, named .BASE.s3meta.
//
// # Rates
//
// A rate is given to each TCP connection when it is accepted, drawn from a
// distribution with a seed, as real stores give different connections different
// rates (Chiba et al. 2010, section 3); further ones to all connections of one
// client address, and to all together. They hold for bytes towards the client.
//
// # Limits of the library, and how it is run
//
// versitygw's server can be bound only to addresses that it opens itself, so
// it is started on a socket in a private directory, asked for its handler with
// one request, and shut down again; the handler then runs under a server of
// ours, with our connections. That spares a pipe between two sockets: bodies
// go from file to socket by sendfile(2), paced or not.
//
// Its posix backend works relative to the current directory of the process and
// its settings are global: there is one Server in a process at a time, and
// while it runs the current directory is Dir. Relative paths must be made
// absolute before Start; Close goes back.
package s3serve
