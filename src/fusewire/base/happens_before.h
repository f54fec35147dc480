// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tells ThreadSanitizer of an order that it can't see: everything before one call for a place happens before everything
// after the other call for it. No effect without that sanitizer.
#pragma once

#include "fusewire/base/sanitizers.h"

#if FUSEWIRE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace fusewire {

#if FUSEWIRE_THREAD_SANITIZER
inline void TellHappensBefore(void* place) { __tsan_release(place); }
inline void TellHappensAfter(void* place) { __tsan_acquire(place); }
#else
inline void TellHappensBefore(void*) {}
inline void TellHappensAfter(void*) {}
#endif

}  // namespace fusewire
