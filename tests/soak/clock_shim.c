// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Preloaded into a task: the time of day as if the machine's clock had been set. SOAK_CLOCK names a file whose first
// eight bytes say by how many seconds; it may change at any time. Waits until a time of day are turned back into the
// kernel's, for there the clock stands where it stood. The monotonic clock is left alone, as it is when a clock is set.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t nothing = 0;
static volatile int64_t* ahead_seconds = &nothing;

__attribute__((constructor)) static void Begin(void) {
  const char* path = getenv("SOAK_CLOCK");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* memory = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) ahead_seconds = memory;
  close(file);
}

static int IsTimeOfDay(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

static struct timespec Back(const struct timespec* shown) {
  struct timespec real = *shown;
  real.tv_sec -= *ahead_seconds;
  if (real.tv_sec < 0) real.tv_sec = 0;
  return real;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*next)(clockid_t, struct timespec*);
  if (next == NULL) next = dlsym(RTLD_NEXT, "clock_gettime");
  const int status = next(clock, now);
  if (status == 0 && IsTimeOfDay(clock)) now->tv_sec += *ahead_seconds;
  return status;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec fine;
  const int status = clock_gettime(CLOCK_REALTIME, &fine);
  if (status == 0) *now = (struct timeval){.tv_sec = fine.tv_sec, .tv_usec = fine.tv_nsec / 1000};
  return status;
}

time_t time(time_t* now) {
  struct timespec fine;
  clock_gettime(CLOCK_REALTIME, &fine);
  if (now != NULL) *now = fine.tv_sec;
  return fine.tv_sec;
}

// Conditions of pthread_condattr_setclock(CLOCK_MONOTONIC) wait by the machine's uptime, which is far from any date.
static int IsDate(const struct timespec* when) { return when->tv_sec > 1000000000; }

int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  static int (*next)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
  if (next == NULL) next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!IsDate(until)) return next(condition, mutex, until);
  const struct timespec real = Back(until);
  return next(condition, mutex, &real);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  static int (*next)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  if (next == NULL) next = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  if (!IsTimeOfDay(clock)) return next(condition, mutex, clock, until);
  const struct timespec real = Back(until);
  return next(condition, mutex, clock, &real);
}

int sem_timedwait(sem_t* restrict semaphore, const struct timespec* restrict until) {
  static int (*next)(sem_t*, const struct timespec*);
  if (next == NULL) next = dlsym(RTLD_NEXT, "sem_timedwait");
  const struct timespec real = Back(until);
  return next(semaphore, &real);
}

int sem_clockwait(sem_t* restrict semaphore, clockid_t clock, const struct timespec* restrict until) {
  static int (*next)(sem_t*, clockid_t, const struct timespec*);
  if (next == NULL) next = dlsym(RTLD_NEXT, "sem_clockwait");
  if (!IsTimeOfDay(clock)) return next(semaphore, clock, until);
  const struct timespec real = Back(until);
  return next(semaphore, clock, &real);
}

// Code that waits by futex itself: nsync and Abseil, inside TensorFlow and gRPC.
long syscall(long number, ...) {
  static long (*next)(long, ...);
  if (next == NULL) next = dlsym(RTLD_NEXT, "syscall");
  va_list words;
  va_start(words, number);
  long a[6];
  for (int index = 0; index < 6; ++index) a[index] = va_arg(words, long);
  va_end(words);
  const long by_date = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  struct timespec real;
  if (number == SYS_futex && (a[1] & by_date) == by_date && a[3] != 0) {
    real = Back((const struct timespec*)a[3]);
    a[3] = (long)&real;
  }
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
