// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TensorFlow is not instrumented: ThreadSanitizer does not see what its mutexes order, and would take everything that
// they guard for a race. They are nsync's, of libtensorflow_framework, and called by their names: ours stand before
// them, tell ThreadSanitizer, and call them. Built under ThreadSanitizer only, with a TensorFlow that has nsync.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <ctime>

#include "fusewire/base/check.h"
#include "fusewire/tf/bridge/threads_test.h"

#include <gtest/gtest.h>
#include <tensorflow/core/platform/mutex.h>

namespace nsync {

struct nsync_mu_s_;
struct nsync_cv_s_;
struct nsync_note_s_;

namespace {

// nsync's own.
template <class Function>
Function* Next(Function* /*ours*/, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  FUSEWIRE_CHECK(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

#define FUSEWIRE_SEEN __attribute__((visibility("default")))
// Their names are nsync's.
// NOLINTBEGIN(readability-identifier-naming)
FUSEWIRE_SEEN void nsync_mu_lock(nsync_mu_s_* mutex) {
  static const auto next = Next(&nsync_mu_lock, "_ZN5nsync13nsync_mu_lockEPNS_11nsync_mu_s_E");
  next(mutex);
  __tsan_acquire(mutex);
}

FUSEWIRE_SEEN void nsync_mu_unlock(nsync_mu_s_* mutex) {
  static const auto next = Next(&nsync_mu_unlock, "_ZN5nsync15nsync_mu_unlockEPNS_11nsync_mu_s_E");
  __tsan_release(mutex);
  next(mutex);
}

FUSEWIRE_SEEN int nsync_mu_trylock(nsync_mu_s_* mutex) {
  static const auto next = Next(&nsync_mu_trylock, "_ZN5nsync16nsync_mu_trylockEPNS_11nsync_mu_s_E");
  const int taken = next(mutex);
  if (taken != 0) __tsan_acquire(mutex);
  return taken;
}

FUSEWIRE_SEEN void nsync_mu_rlock(nsync_mu_s_* mutex) {
  static const auto next = Next(&nsync_mu_rlock, "_ZN5nsync14nsync_mu_rlockEPNS_11nsync_mu_s_E");
  next(mutex);
  __tsan_acquire(mutex);
}

// More than it orders: two that read are taken to follow each other.
FUSEWIRE_SEEN void nsync_mu_runlock(nsync_mu_s_* mutex) {
  static const auto next = Next(&nsync_mu_runlock, "_ZN5nsync16nsync_mu_runlockEPNS_11nsync_mu_s_E");
  __tsan_release(mutex);
  next(mutex);
}

FUSEWIRE_SEEN void nsync_cv_wait(nsync_cv_s_* changed, nsync_mu_s_* mutex) {
  static const auto next = Next(&nsync_cv_wait, "_ZN5nsync13nsync_cv_waitEPNS_11nsync_cv_s_EPNS_11nsync_mu_s_E");
  __tsan_release(mutex);
  next(changed, mutex);
  __tsan_acquire(mutex);
}

FUSEWIRE_SEEN int nsync_cv_wait_with_deadline(nsync_cv_s_* changed, nsync_mu_s_* mutex, timespec deadline,
                                              nsync_note_s_* note) {
  static const auto next =
      Next(&nsync_cv_wait_with_deadline,
           "_ZN5nsync27nsync_cv_wait_with_deadlineEPNS_11nsync_cv_s_EPNS_11nsync_mu_s_E8timespecPNS_13nsync_"
           "note_s_E");
  __tsan_release(mutex);
  const int outcome = next(changed, mutex, deadline, note);
  __tsan_acquire(mutex);
  return outcome;
}

FUSEWIRE_SEEN void nsync_mu_wait(nsync_mu_s_* mutex, int (*condition)(const void*), const void* argument,
                                 int (*is_equal)(const void*, const void*)) {
  static const auto next = Next(&nsync_mu_wait, "_ZN5nsync13nsync_mu_waitEPNS_11nsync_mu_s_EPFiPKvES3_PFiS3_S3_E");
  __tsan_release(mutex);
  next(mutex, condition, argument, is_equal);
  __tsan_acquire(mutex);
}

// NOLINTEND(readability-identifier-naming)
#undef FUSEWIRE_SEEN

}  // namespace nsync

namespace fusewire::tf {
namespace {

TEST(Nsync, ThreadSanitizerSeesWhatMutexesOfTensorFlowOrder) {
  tensorflow::mutex mutex;
  int count = 0;
  RunTogether(4, [&mutex, &count](int) {
    for (int i = 0; i < 1000; ++i) {
      tensorflow::mutex_lock lock(mutex);
      ++count;
    }
  });
  EXPECT_EQ(count, 4000);
}

}  // namespace
}  // namespace fusewire::tf
