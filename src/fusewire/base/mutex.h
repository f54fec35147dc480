// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A lock that the compiler checks: clang knows what each Mutex guards (FUSEWIRE_GUARDED_BY), and which functions
// require it held (FUSEWIRE_REQUIRES) or not held (FUSEWIRE_EXCLUDES), and rejects violations. gcc ignores the
// annotations.
// Home: any thread. Owns: the lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#ifdef __clang__
#define FUSEWIRE_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define FUSEWIRE_THREAD_SAFETY(attribute)
#endif

// After a member: it is read and written only with this lock held.
#define FUSEWIRE_GUARDED_BY(mutex) FUSEWIRE_THREAD_SAFETY(guarded_by(mutex))
// After a function: its caller must hold this lock; or must not hold it, as the function takes it.
#define FUSEWIRE_REQUIRES(...) FUSEWIRE_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define FUSEWIRE_EXCLUDES(...) FUSEWIRE_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
// After functions of locks.
#define FUSEWIRE_ACQUIRE(...) FUSEWIRE_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define FUSEWIRE_RELEASE(...) FUSEWIRE_THREAD_SAFETY(release_capability(__VA_ARGS__))

namespace fusewire {

class FUSEWIRE_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() FUSEWIRE_ACQUIRE() { mutex_.lock(); }
  void Unlock() FUSEWIRE_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a lock until its scope ends. It may be released and taken again in between.
class FUSEWIRE_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) FUSEWIRE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() FUSEWIRE_RELEASE() {
    if (holds_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() FUSEWIRE_RELEASE() {
    holds_ = false;
    mutex_.Unlock();
  }
  void Lock() FUSEWIRE_ACQUIRE() {
    mutex_.Lock();
    holds_ = true;
  }

 private:
  Mutex& mutex_;
  bool holds_ = true;
};

// Threads wait here until data guarded by a Mutex has changed. Wake-ups may be spurious: a waiting thread checks its
// condition again, in a loop of its own, as the compiler can't see which locks a lambda holds.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex& mutex) FUSEWIRE_REQUIRES(mutex);
  // False: this time of Clock::Real() has passed.
  bool WaitUntil(Mutex& mutex, int64_t deadline_ns) FUSEWIRE_REQUIRES(mutex);
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

// Of the calling thread: 0, 1, 2, ... in the order of their first calls. Where threads would wait for one lock, each
// takes the copy of its number instead.
inline size_t ThreadNumber() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t own = threads.fetch_add(1, std::memory_order_relaxed);
  return own;
}

}  // namespace fusewire
