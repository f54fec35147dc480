// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which sanitizer this code is compiled for, with gcc and clang, and what ThreadSanitizer has to be told.
// Home: any thread.
#pragma once

// gcc has a macro for each. A library may have defined clang's __has_feature for it, as one that has none.
#if defined(__SANITIZE_ADDRESS__)
#define FUSEWIRE_ADDRESS_SANITIZER 1
#elif defined(__clang__)
#define FUSEWIRE_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define FUSEWIRE_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__)
#define FUSEWIRE_THREAD_SANITIZER 1
#elif defined(__clang__)
#define FUSEWIRE_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define FUSEWIRE_THREAD_SANITIZER 0
#endif

#if FUSEWIRE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace fusewire {

constexpr bool kThreadSanitizer = FUSEWIRE_THREAD_SANITIZER != 0;
constexpr bool kSanitized = kThreadSanitizer || FUSEWIRE_ADDRESS_SANITIZER != 0;

// Tells ThreadSanitizer of an order that it can't see: everything before one call for a place happens before everything
// after the other call for it. No effect without that sanitizer.
#if FUSEWIRE_THREAD_SANITIZER
inline void TellHappensBefore(void* place) { __tsan_release(place); }
inline void TellHappensAfter(void* place) { __tsan_acquire(place); }
#else
inline void TellHappensBefore(void*) {}
inline void TellHappensAfter(void*) {}
#endif

}  // namespace fusewire
