/* Open MPI waits in a loop, and with mpi_yield_when_idle calls sched_yield in
 * it. As many ranks as a laboratory has nodes then take all of its machine's
 * processors. With this in front of the C library's, who waits sleeps. */
#define _GNU_SOURCE
#include <time.h>

int sched_yield(void) {
	struct timespec t = {0, 200000};
	nanosleep(&t, 0);
	return 0;
}
