// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Threads that use one thing at the same time use different copies of it: each takes the copy of its number.
// Home: any thread. Fails: never.
#pragma once

#include <atomic>
#include <cstddef>

namespace fusewire {

// Of the calling thread: 0, 1, 2, ... in the order of their first calls.
inline size_t ThreadNumber() {
  static std::atomic<size_t> threads{0};
  thread_local const size_t own = threads.fetch_add(1, std::memory_order_relaxed);
  return own;
}

}  // namespace fusewire
