/* Shifts the wall clock of one process by SHIFT_SECONDS: loaded before the C library (LD_PRELOAD), it answers in its place. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    const char *shift = getenv("SHIFT_SECONDS");
    if (result == 0 && clock == CLOCK_REALTIME && shift)
        now->tv_sec += atol(shift);
    return result;
}
