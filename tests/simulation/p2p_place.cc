// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "p2p_place.h"

#include <map>
#include <set>
#include <utility>

#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"

namespace fusewire::p2p {
namespace {

class LoopbackPlace final : public Place {
 public:
  LoopbackPlace(uint64_t seed, const transport::LoopbackFaults& faults) : world_(seed, faults) {}

  std::unique_ptr<Endpoint> Open(EndpointOptions options) override {
    const std::string name = options.pipe.name;
    reactor::Reactor* home = known_.insert(name).second ? world_.AddHost(name) : world_.RestartHost(name);
    return Endpoint::Make(std::move(options), AddressOf(""), reactor::Pool::Around(home), world_.MakeTransport(name))
        .value();
  }
  transport::Address AddressOf(const std::string& name) override { return {name, 5555}; }
  int64_t NowNs() override { return world_.clock()->NowNs(); }
  void Run(int64_t ns) override { world_.RunFor(ns); }
  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns) override {
    return world_.RunUntil(std::move(done), limit_ns);
  }
  void Settle() override { world_.RunFor(3 * kSecondNs); }
  void Cut(const std::string& a, const std::string& b) override { world_.Cut(a, b); }
  void Kill(const std::string& name, bool silently) override {
    world_.KillHost(name, silently ? transport::LoopbackDeath::kSilent : transport::LoopbackDeath::kReset);
  }
  int64_t timeout_ns() const override { return 8 * kSecondNs; }
  int64_t patience_ns() const override { return 4 * kSecondNs; }

 private:
  transport::LoopbackWorld world_;
  std::set<std::string> known_;
};

class WirePlace final : public Place {
 public:
  explicit WirePlace(task::TransportChoice wire) : wire_(wire) {}

  std::unique_ptr<Endpoint> Open(EndpointOptions options) override {
    options.wire = wire_;
    transport::Address& address = addresses_.try_emplace(options.pipe.name, transport::Address{kHost, 0}).first->second;
    auto endpoint = Endpoint::Start(std::move(options), address).value();
    address = endpoint->address();
    return endpoint;
  }
  transport::Address AddressOf(const std::string& name) override { return addresses_[name]; }
  int64_t NowNs() override { return Clock::Real()->NowNs(); }
  void Run(int64_t ns) override {
    reactor::Eventually([] { return false; }, ns);
  }
  bool RunUntil(UniqueFunction<bool()> done, int64_t limit_ns) override {
    return reactor::Eventually([&done] { return done(); }, limit_ns);
  }
  void Settle() override { Run(5 * kMillisecondNs); }
  void Cut(const std::string&, const std::string&) override {}
  void Kill(const std::string&, bool) override {}
  int64_t timeout_ns() const override { return 300 * kMillisecondNs; }
  int64_t patience_ns() const override { return 200 * kMillisecondNs; }

 private:
  static constexpr const char* kHost = "127.0.0.1";
  const task::TransportChoice wire_;
  std::map<std::string, transport::Address> addresses_;
};

}  // namespace

std::unique_ptr<Place> MakeLoopbackPlace(uint64_t seed, const transport::LoopbackFaults& faults) {
  return std::make_unique<LoopbackPlace>(seed, faults);
}

std::unique_ptr<Place> MakeWirePlace(task::TransportChoice wire) { return std::make_unique<WirePlace>(wire); }

}  // namespace fusewire::p2p
