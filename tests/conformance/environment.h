// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where a contract is tested: two sides, "a", which dials, and "b", and whatever lies between them. A suite is
// written once against an Environment and runs over every transport, at the level of connections, pipes or calls.
//   class MyContract : public conformance::Suite {};
//   TEST_P(MyContract, HoldsThis) {
//     env().RunAtHome(env().a(), [&] { ... });
//     ASSERT_TRUE(env().RunUntil([&] { ... }));
//   }
//   FUSEWIRE_EVERYWHERE(MyContract);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"

namespace fusewire::conformance {

class Environment {
 public:
  virtual ~Environment() = default;

  // Homes and transports of the two sides. Over TCP they are threads; in a simulation the test turns them by RunUntil.
  virtual reactor::Pool& pool_a() = 0;
  virtual reactor::Pool& pool_b() = 0;
  reactor::Reactor& a() { return pool_a().at(0); }
  reactor::Reactor& b() { return pool_b().at(0); }
  virtual transport::Transport& transport_a() = 0;
  virtual transport::Transport& transport_b() = 0;

  // More of the same, for what owns its pool and its transport.
  enum class Side { kA, kB };
  virtual std::unique_ptr<reactor::Pool> MakePool(Side side) = 0;
  virtual std::unique_ptr<transport::Transport> MakeTransport(Side side) = 0;

  // Where b listens, on a free port; and how a dials a port of b's.
  virtual transport::Address listen_address() = 0;
  virtual transport::Address At(uint16_t port) = 0;
  // An address of b's host where nobody listens, one where nobody ever answers, and one that is not on b's host.
  virtual transport::Address Refusing() = 0;
  virtual transport::Address Silent() = 0;
  virtual transport::Address Foreign() = 0;

  // Lets everything run until `done`, which is called on the test's thread, outside of every home. False: limit_ns of
  // the environment's time have passed.
  virtual bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns = 30 * kSecondNs) = 0;
  // Runs `what` at home and returns when it is done.
  virtual void RunAtHome(reactor::Reactor& home, const std::function<void()>& what) = 0;
  // Time is virtual: waiting costs nothing, and large transfers cost more than elsewhere.
  virtual bool simulated() const = 0;
};

struct Kind {
  std::string name;
  // Null where this machine has no such network.
  std::function<std::unique_ptr<Environment>()> make;
  bool shakes_hands = false;  // nothing is taken before the other end has a home
  bool copies = false;        // large pieces, by our own hand
};

inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// TCP on 127.0.0.1, on ::1 and by name; loopback with several seeds, from kind to nasty.
std::vector<Kind> AllKinds();

class Suite : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    environment_ = GetParam().make();
    if (environment_ == nullptr) GTEST_SKIP() << "this machine has no " << GetParam().name;
  }
  Environment& env() { return *environment_; }
  void AtA(const std::function<void()>& what) { env().RunAtHome(env().a(), what); }
  void AtB(const std::function<void()>& what) { env().RunAtHome(env().b(), what); }

 private:
  std::unique_ptr<Environment> environment_;
};

inline std::string NameOf(const testing::TestParamInfo<Kind>& kind) { return kind.param.name; }

}  // namespace fusewire::conformance

#define FUSEWIRE_EVERYWHERE(suite) \
  INSTANTIATE_TEST_SUITE_P(Everywhere, suite, testing::ValuesIn(conformance::AllKinds()), conformance::NameOf)
