// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "fusewire/base/check.h"

namespace fusewire {

void SystemRandom(Bytes out) {
  while (out.size > 0) {
    ssize_t got = getrandom(out.data, out.size, 0);
    if (got < 0) {
      FUSEWIRE_CHECK(errno == EINTR);  // with these arguments there is no other failure
      continue;
    }
    out = out.From(static_cast<size_t>(got));
  }
}

uint64_t SystemRandom64() {
  uint64_t value = 0;
  SystemRandom(Bytes(&value, sizeof(value)));
  return value;
}

}  // namespace fusewire
