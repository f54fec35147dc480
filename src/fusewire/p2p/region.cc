// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/region.h"

#include <utility>

#include "fusewire/base/log.h"
#include "fusewire/p2p/core.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/p2p/regions.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::p2p {

Result<std::unique_ptr<Region>> Region::Open(Endpoint& endpoint, Buffer memory, Access access) {
  Core* core = &endpoint.core();
  Bytes bytes = memory.bytes();
  Result<RegionRef> ref = RegionRef();
  core->home().Run([&] { ref = core->regions().Open(std::move(memory), access); });
  if (!ref.ok()) return ref.status();
  return std::unique_ptr<Region>(new Region(core, ref.value(), bytes));
}

Region::~Region() {
  core_->home().Run([this] { core_->regions().Close(ref_); });
}

Result<std::unique_ptr<Signal>> Signal::Open(Endpoint& endpoint) {
  Core* core = &endpoint.core();
  auto state = std::make_unique<SignalState>();
  core->home().Run([&] { state->name = core->regions().OpenSignal(state.get()); });
  uint64_t name = state->name;
  if (name == 0) {
    return Status::Overloaded("regions_max (" + std::to_string(core->self().limits.regions_max) + ") signals are open")
        .Phase("opening a signal")
        .Next("destroy signals that are not used");
  }
  return std::unique_ptr<Signal>(new Signal(core, std::move(state), name));
}

Signal::Signal(Core* core, std::unique_ptr<SignalState> state, SignalRef ref)
    : core_(core), state_(std::move(state)), ref_(ref) {}

Signal::~Signal() {
  core_->home().Run([this] { core_->regions().CloseSignal(state_.get()); });
}

uint64_t Signal::value() const { return state_->value.load(std::memory_order_acquire); }

void Signal::Add(uint64_t amount) {
  Core* core = core_;
  SignalRef name = ref_;
  core->home().Post([core, name, amount] {
    Status fits = core->regions().CheckAdd(name, amount);
    if (!fits.ok()) {
      FUSEWIRE_LOG(kError, "endpoint %s: %s", core->self().name.c_str(), fits.ToString().c_str());
      return;
    }
    core->regions().AddToSignal(name, amount);
  });
}

AwaitOp::AwaitOp(Endpoint& endpoint, Signal& signal_in, uint64_t at_least_in)
    : Op(endpoint, nullptr, OpKind::kAwait), at_least(at_least_in), signal(signal_in.state()) {}

}  // namespace fusewire::p2p
