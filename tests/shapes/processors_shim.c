// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Preloaded into a process: as many processors as SHAPE_PROCESSORS says, or as shape_processors() is told later. A
// thread may be pinned to any of them; the kernel is not asked, and runs it where it likes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static volatile int processors = 1;
static __thread int pinned = -1;  // this thread's only one

void shape_processors(int count) { processors = count; }

__attribute__((constructor)) static void Begin(void) {
  const char* count = getenv("SHAPE_PROCESSORS");
  if (count != NULL && atoi(count) > 0) processors = atoi(count);
}

static int IsThisThread(pid_t thread) { return thread == 0 || thread == gettid(); }

// As the kernel: a mask that is too small for all is an error.
static int Show(int only, size_t bytes, cpu_set_t* mask) {
  const int count = processors;
  if (bytes * 8 < (size_t)count) return EINVAL;
  memset(mask, 0, bytes);
  for (int cpu = 0; cpu < count; ++cpu) {
    if (only < 0 || cpu == only) CPU_SET_S(cpu, bytes, mask);
  }
  return 0;
}

static int Pin(int is_this_thread, size_t bytes, const cpu_set_t* mask) {
  int wanted = 0;
  int one = -1;
  for (int cpu = 0; cpu < processors && (size_t)cpu < bytes * 8; ++cpu) {
    if (!CPU_ISSET_S(cpu, bytes, mask)) continue;
    ++wanted;
    one = cpu;
  }
  if (wanted == 0) return EINVAL;
  if (is_this_thread) pinned = wanted == 1 ? one : -1;
  return 0;
}

static int Told(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t* mask) {
  return Told(Show(IsThisThread(thread) ? pinned : -1, bytes, mask));
}

int sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t* mask) {
  return Told(Pin(IsThisThread(thread), bytes, mask));
}

int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t* mask) {
  return Show(pthread_equal(thread, pthread_self()) ? pinned : -1, bytes, mask);
}

int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t* mask) {
  return Pin(pthread_equal(thread, pthread_self()), bytes, mask);
}

int sched_getcpu(void) { return pinned >= 0 ? pinned : (int)(gettid() % processors); }

int getcpu(unsigned* cpu, unsigned* node) {
  if (cpu != NULL) *cpu = (unsigned)sched_getcpu();
  if (node != NULL) *node = 0;
  return 0;
}

int get_nprocs(void) { return processors; }
int get_nprocs_conf(void) { return processors; }

long sysconf(int name) {
  static long (*next)(int);
  if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return processors;
  if (next == NULL) next = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return next(name);
}
