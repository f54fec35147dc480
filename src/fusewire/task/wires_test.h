// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: a suite that runs over every wire by itself, with real sockets; what this machine lacks is skipped.
//   class Threads : public task::OverWires {};
//   TEST_P(Threads, ManyTalk) { options.wire = wire(); ... }
//   FUSEWIRE_OVER_WIRES(Threads);
// Home: the test's thread. Fails: skips the test, with what is missing.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <ostream>
#include <string>

#include "fusewire/base/sanitizers.h"
#include "fusewire/task/transport_choice.h"

namespace fusewire::task {

constexpr bool kUcxCanBeTested = !kThreadSanitizer;

struct TestedWire {
  const char* name;
  TransportChoice wire;
  const char* says;     // what a connection calls itself
  const char* ucx_tls;  // what UCX goes over
};

inline void PrintTo(const TestedWire& tested, std::ostream* out) { *out << tested.name; }

// Not ok: this machine, or this build, cannot.
inline Status PrepareWire(const TestedWire& tested) {
  if (tested.wire == TransportChoice::kUcx) {
    if (!kUcxCanBeTested) return Status::Unavailable("ThreadSanitizer takes libucp's own thread for a race");
    setenv("UCX_TLS", tested.ucx_tls, 1);
    // Else shared memory would not notice a peer's end; and of what it does not need it warns.
    setenv("UCX_MM_ERROR_HANDLING", "y", 1);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
  }
  return TryTransport(tested.wire).status;
}

class OverWires : public ::testing::TestWithParam<TestedWire> {
 protected:
  void SetUp() override {
    const Status possible = PrepareWire(GetParam());
    if (!possible.ok()) GTEST_SKIP() << "no " << GetParam().name << " here: " << possible.ToString();
  }
  static TransportChoice wire() { return GetParam().wire; }
};

// All of them.
constexpr TestedWire kTestedWires[] = {{"Tcp", TransportChoice::kTcp, "tcp", ""},
                                       {"Shm", TransportChoice::kShm, "shm", ""},
                                       {"UcxTcp", TransportChoice::kUcx, "ucx", "tcp"},
                                       {"UcxShm", TransportChoice::kUcx, "ucx", "posix,sysv,cma"}};
inline auto TestedWires() { return ::testing::ValuesIn(kTestedWires); }

inline std::string NameOf(const ::testing::TestParamInfo<TestedWire>& tested) { return tested.param.name; }

}  // namespace fusewire::task

#define FUSEWIRE_OVER_WIRES(suite) \
  INSTANTIATE_TEST_SUITE_P(Over, suite, ::fusewire::task::TestedWires(), ::fusewire::task::NameOf)
