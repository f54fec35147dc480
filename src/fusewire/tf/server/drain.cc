// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/drain.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include <tensorflow/core/platform/env.h>
#include "fusewire/base/clock.h"
#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/base/random.h"

namespace fusewire::tf {
namespace {

std::atomic<int> draining_count{0};
std::atomic<int> term_pipe{-1};  // the end of a pipe into which the signal writes
struct sigaction term_before;    // what the signal did

void OnTerm(int) {
  const int kept = errno;
  const char byte = 0;
  if (write(term_pipe.load(), &byte, 1) < 0) ++draining_count;  // nothing else can be done here
  errno = kept;
}

// False: it has not ended by then.
bool DrainWithin(int64_t limit_ns, std::function<TfStatus()> drain, TfStatus* drained) {
  struct Ending {
    Mutex mutex;
    CondVar ended;
    bool has_ended FUSEWIRE_GUARDED_BY(mutex) = false;
    TfStatus status FUSEWIRE_GUARDED_BY(mutex);
  };
  auto ending = std::make_shared<Ending>();  // shared_ptr: it may end after the limit
  tensorflow::Env::Default()->SchedClosure([ending, drain = std::move(drain)] {
    TfStatus status = drain();
    MutexLock lock(ending->mutex);
    ending->status = std::move(status);
    ending->has_ended = true;
    ending->ended.NotifyAll();
  });
  const int64_t until_ns = AddNs(Clock::Real()->NowNs(), limit_ns);
  MutexLock lock(ending->mutex);
  while (!ending->has_ended && ending->ended.WaitUntil(ending->mutex, until_ns)) {
  }
  *drained = ending->status;
  return ending->has_ended;
}

void Await(int end, int64_t limit_ns, const std::function<TfStatus()>& drain) {
  char byte = 0;
  while (read(end, &byte, 1) != 1) {
    if (errno != EINTR) return;
  }
  ++draining_count;
  sigaction(SIGTERM, &term_before, nullptr);  // a second one ends the process at once
  TfStatus drained;
  const bool has_ended = DrainWithin(limit_ns, drain, &drained);
  if (has_ended && drained.ok()) {
    FUSEWIRE_LOG(kInfo, "this process was told to end, and other processes serve what it has served");
    std::fflush(nullptr);
    if (term_before.sa_handler == SIG_DFL) _exit(0);  // not by exit: TensorFlow's threads still run
  } else {
    FUSEWIRE_LOG(kWarn, "this process was told to end, and still has tasks: %s; see: fusewire explain elastic#moving",
                 has_ended ? drained.ToString().c_str() : "they could not be moved in the time of FUSEWIRE_DRAIN");
  }
  kill(getpid(), SIGTERM);
}

}  // namespace

uint64_t ProcessId() {
  static const uint64_t id = SystemRandom64() | 1;
  return id;
}

bool IsDraining() { return draining_count > 0; }

Draining::Draining() { ++draining_count; }
Draining::~Draining() { --draining_count; }

void DrainBeforeTheEnd(int64_t limit_ns, std::function<TfStatus()> drain) {
  static std::atomic<bool> has_begun{false};
  if (has_begun.exchange(true)) return;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    FUSEWIRE_LOG(kWarn, "FUSEWIRE_DRAIN has no effect: pipe: errno %d", errno);
    return;
  }
  term_pipe = ends[1];
  tensorflow::Env::Default()->SchedClosure(
      [end = ends[0], limit_ns, drain = std::move(drain)] { Await(end, limit_ns, drain); });
  struct sigaction action = {};
  action.sa_handler = OnTerm;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &term_before);
}

}  // namespace fusewire::tf
