// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How much memory a decoder asked for, where AddressSanitizer can tell; elsewhere always 0.
// Home: the fuzz target's one thread. Owns: one number of the process.
#pragma once

#include <cstddef>

#include "fusewire/base/sanitizers.h"

#if FUSEWIRE_ADDRESS_SANITIZER
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));
#endif

namespace fusewire {

// From its construction on, the sum of all allocations, whether freed again or not.
class AllocatedBytes {
 public:
  AllocatedBytes() : before_(Total()) {}
  size_t sum() const { return Total() - before_; }

 private:
  static size_t& Counted() {
    static size_t total = 0;
    return total;
  }
  static size_t Total() {
#if FUSEWIRE_ADDRESS_SANITIZER
    static const int kInstalled = __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void*, size_t size) { Counted() += size; }, [](const volatile void*) {});
    (void)kInstalled;
#endif
    return Counted();
  }

  const size_t before_;
};

}  // namespace fusewire
