// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tells ThreadSanitizer what it can't see: that all before a call for a place happens before all after the other call
// for it. Nothing without that sanitizer.
#ifndef FUSEWIRE_BASE_HAPPENS_BEFORE_H_
#define FUSEWIRE_BASE_HAPPENS_BEFORE_H_

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define FUSEWIRE_THREAD_SANITIZER 1
#endif
#endif

namespace fusewire {

#ifdef FUSEWIRE_THREAD_SANITIZER
inline void TellHappensBefore(void* place) { __tsan_release(place); }
inline void TellHappensAfter(void* place) { __tsan_acquire(place); }
#else
inline void TellHappensBefore(void*) {}
inline void TellHappensAfter(void*) {}
#endif

}  // namespace fusewire

#endif  // FUSEWIRE_BASE_HAPPENS_BEFORE_H_
