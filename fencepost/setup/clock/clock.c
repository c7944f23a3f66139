/* A wall clock that can be set from outside, for one process: preload this library (LD_PRELOAD) and name the file that
 * holds the setting in FENCEPOST_CLOCK. `cluster/wall_clock.py` writes that file while the process runs.
 *
 * What asks libc for the wall clock gets the setting; CLOCK_MONOTONIC and the clock of a wait or a timer stay as they
 * are. A program that asks the kernel without libc, as Go programs do, is not reached.
 *
 * The real time is taken by a system call. Looking up libc's own function instead may allocate memory, and an allocator
 * that asks for the time while it starts, as jemalloc does, would come back here. The library needs nothing but a few
 * functions that every libc has in every version, so that it also works in a container with another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "64-bit machines only");

#define SECOND_NS 1000000000L
#define MILLION 1000000L

/* From `since_ns` (CLOCK_MONOTONIC) on, the clock is `ahead_ns` ahead and gains `rate_ppm` ns per ms. With `strobe_ns`
 * it is ahead in every other such period only, beginning with the first. */
struct setting {
    int64_t since_ns, ahead_ns, rate_ppm, strobe_ns;
};

/* The setting in force is that of `generation` modulo two; the other place is where the next one is written. So a
 * reader waits for nobody, not even for a writer that was killed. */
struct page {
    uint64_t generation;
    struct setting settings[2];
};

static const struct page *page;

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static int64_t ahead_ns(void)
{
    if (page == NULL)
        return 0;
    struct setting setting;
    uint64_t generation;
    do {
        generation = __atomic_load_n(&page->generation, __ATOMIC_ACQUIRE);
        setting = page->settings[generation % 2];
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&page->generation, __ATOMIC_RELAXED) != generation);
    if (setting.rate_ppm == 0 && setting.strobe_ns == 0)
        return setting.ahead_ns;
    int64_t passed_ns = now_ns(CLOCK_MONOTONIC) - setting.since_ns;
    if (setting.strobe_ns != 0 && passed_ns / setting.strobe_ns % 2 != 0)
        return 0;
    return setting.ahead_ns + passed_ns / MILLION * setting.rate_ppm + passed_ns % MILLION * setting.rate_ppm / MILLION;
}

static struct timespec wall_clock(clockid_t clock)
{
    int64_t at_ns = now_ns(clock) + ahead_ns();
    return (struct timespec){at_ns / SECOND_NS, at_ns % SECOND_NS};
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE && clock != CLOCK_TAI)
        return (int)syscall(SYS_clock_gettime, clock, now);
    *now = wall_clock(clock);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec at = wall_clock(CLOCK_REALTIME);
    *now = (struct timeval){at.tv_sec, at.tv_nsec / 1000};
    if (zone != NULL)
        memset(zone, 0, sizeof(struct timezone));
    return 0;
}

time_t time(time_t *now)
{
    time_t at = wall_clock(CLOCK_REALTIME).tv_sec;
    if (now != NULL)
        *now = at;
    return at;
}

int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC)
        return 0;
    *now = wall_clock(CLOCK_REALTIME);
    return base;
}

/* A process that was to have a clock of its own never runs with the machine's instead. */
static void refuse(const char *why)
{
    static const char what[] = "fencepost-clock: FENCEPOST_CLOCK ";
    if (write(STDERR_FILENO, what, sizeof what - 1) > 0 && write(STDERR_FILENO, why, strlen(why)) > 0)
        _exit(127);
    _exit(126);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FENCEPOST_CLOCK");
    if (path == NULL)
        refuse("is not set\n");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        refuse("cannot be opened\n");
    void *mapped = mmap(NULL, sizeof(struct page), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        refuse("cannot be mapped\n");
    close(file);
    page = mapped;
}
