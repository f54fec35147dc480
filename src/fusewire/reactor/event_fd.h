// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A non-blocking eventfd as a bell: it rings until it is read.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace fusewire::reactor {

inline void WriteEvent(int fd) {
  const uint64_t one = 1;
  const ssize_t written = write(fd, &one, sizeof(one));
  (void)written;  // full means that it is readable already
}

inline void ReadEvent(int fd) {
  uint64_t count = 0;
  const ssize_t got = read(fd, &count, sizeof(count));
  (void)got;  // empty means that another thread was faster
}

}  // namespace fusewire::reactor
