// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Commits one fault, on purpose: a sanitizer that is switched off by an option, a container or a build mistake would
// otherwise pass every test in silence.
#include <cstdio>
#include <limits>
#include <string>
#include <thread>

namespace {

int* volatile g_cell = nullptr;  // volatile, so that the compiler keeps the fault
volatile int g_number = std::numeric_limits<int>::max();
int g_shared = 0;

void Leak() {
  g_cell = new int[100];
  g_cell = nullptr;
}

void UseAfterFree() {
  g_cell = new int(1);
  delete g_cell;
  g_number = *g_cell;  // NOLINT(clang-analyzer-cplusplus.NewDelete): the fault
}

void Overflow() { g_number = g_number + 1; }

void Race() {
  std::thread other([] { ++g_shared; });
  ++g_shared;
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = argc == 2 ? argv[1] : "";
  if (fault == "leak") {
    Leak();
  } else if (fault == "use_after_free") {
    UseAfterFree();
  } else if (fault == "overflow") {
    Overflow();
  } else if (fault == "race") {
    Race();
  } else {
    std::fprintf(stderr, "usage: %s leak|use_after_free|overflow|race\n", argv[0]);
    return 2;
  }
  return 0;
}
