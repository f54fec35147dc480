// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// FUSEWIRE_CHECK states what our own code promises. It is always on and ends the process: use it for our bugs,
// never for what a peer, a user or the system may do (that is a Status).
#ifndef FUSEWIRE_BASE_CHECK_H_
#define FUSEWIRE_BASE_CHECK_H_

namespace fusewire {

// Prints the broken promise with its place, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace fusewire

#define FUSEWIRE_CHECK(condition) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::fusewire::CheckFailed(__FILE__, __LINE__, #condition))

// Checks that cost too much for every message: on in builds for tests. Not NDEBUG decides: the plug-in is compiled with
// it whatever we want, as the layout of TensorFlow's classes depends on it.
#ifdef FUSEWIRE_DCHECKS
#define FUSEWIRE_DCHECK(condition) FUSEWIRE_CHECK(condition)
#else
#define FUSEWIRE_DCHECK(condition) ((void)sizeof(!(condition)))
#endif

#endif  // FUSEWIRE_BASE_CHECK_H_
