// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// FUSEWIRE_CHECK states an invariant of our own code. It is always on and ends the process: use it for our bugs,
// never for what a peer, a user or the system may do (that is a Status).
#pragma once

namespace fusewire {

// Prints the failed check with its place, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace fusewire

#define FUSEWIRE_CHECK(condition) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::fusewire::CheckFailed(__FILE__, __LINE__, #condition))

// Checks that are too expensive for every message; on in test builds. NDEBUG does not control them: the plug-in must be
// compiled with it in any case, because the layout of TensorFlow's classes depends on it.
#ifdef FUSEWIRE_DCHECKS
#define FUSEWIRE_DCHECK(condition) FUSEWIRE_CHECK(condition)
#else
#define FUSEWIRE_DCHECK(condition) ((void)(true || (condition)))  // compiled, never run
#endif
