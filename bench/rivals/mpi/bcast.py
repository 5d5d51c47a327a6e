# MPI_Bcast of a stream: rank 0 reads it from the store while the others have
# its last part. Arguments: one directory, one mark and one size of a file, and
# then the URLs, which rank 0 alone reads.
import os, queue, sys, threading, urllib.request
from mpi4py import MPI

PART = 4 << 20

where, mark, each = sys.argv[1], sys.argv[2], int(sys.argv[3])
urls = sys.argv[4:]
world = MPI.COMM_WORLD
host = MPI.Get_processor_name()
where, mark = where.replace("{node}", host), mark.replace("{node}", host)

parts = queue.Queue(4)


def read():
    try:
        for url in urls:
            with urllib.request.urlopen(url, timeout=60) as r:
                left = each
                while left:
                    b = bytearray(min(PART, left))
                    n, view = 0, memoryview(b)
                    while n < len(b):
                        k = r.readinto(view[n:])
                        if not k:
                            raise EOFError(url)
                        n += k
                    left -= n
                    parts.put(b)
    except BaseException as e:
        print(e, file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)


if world.rank == 0:
    threading.Thread(target=read, daemon=True).start()
for i, url in enumerate(urls):
    with open(os.path.join(where, "part-%02d" % i), "wb") as f:
        left = each
        while left:
            b = parts.get() if world.rank == 0 else bytearray(min(PART, left))
            world.Bcast([b, MPI.BYTE], root=0)
            f.write(b)
            left -= len(b)
        f.flush()
        os.fsync(f.fileno())
open(mark, "w").close()
