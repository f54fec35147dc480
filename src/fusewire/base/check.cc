// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace fusewire {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "fusewire: broken promise at %s:%d: %s. This is a bug in Fusewire: please report this line.\n",
               file, line, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace fusewire
