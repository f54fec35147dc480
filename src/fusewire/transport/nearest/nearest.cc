// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/transports.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/log.h"

namespace fusewire::transport {
namespace {

// A near peer answers at once, or hangs; the far transport then has most of the time left.
constexpr int64_t kNearNsMax = kSecondNs;

struct Both {
  std::unique_ptr<Transport> near, far;
  LogLimiter log{10 * kSecondNs};

  // One line about a peer or an address that only the far transport serves from now on.
  void TellFar(const Address& address, const Status& why, int64_t now_ns) {
    uint64_t suppressed = 0;
    if (!log.Allow(now_ns, &suppressed)) return;
    FUSEWIRE_LOG(kWarn, "%s is not reached over shared memory (%llu more in between): %s", address.ToString().c_str(),
                 static_cast<unsigned long long>(suppressed), why.Explained().c_str());
  }
};

class NearestListener final : public Listener {
 public:
  NearestListener(std::unique_ptr<Listener> near, std::unique_ptr<Listener> far)
      : near_(std::move(near)), far_(std::move(far)) {}
  Address address() const override { return far_->address(); }

 private:
  const std::unique_ptr<Listener> near_, far_;  // near: null if it could not listen
};

class NearestDialing final : public Dialing {
 public:
  NearestDialing(Both* both, reactor::Reactor& home, const Address& address, OnDialed on_dialed)
      : both_(*both), home_(home), address_(address), on_dialed_(std::move(on_dialed)) {}

  void Start(int64_t timeout_ns) {
    began_ns_ = home_.now_ns();
    deadline_ns_ = AddNs(began_ns_, timeout_ns);
    now_ = both_.near->Dial(home_, address_, std::min(timeout_ns / 2, kNearNsMax),
                            [this](Result<std::unique_ptr<Connection>> made) { OnNear(std::move(made)); });
  }

 private:
  void OnNear(Result<std::unique_ptr<Connection>> made) {
    if (made.ok()) {
      OnDialed on_dialed = std::move(on_dialed_);
      on_dialed(std::move(made));  // may destroy us
      return;
    }
    // The peer is not near, or does not answer there: use the far transport.
    if (made.status().code() != Code::kUnavailable) both_.TellFar(address_, made.status(), home_.now_ns());
    now_ = both_.far->Dial(home_, address_, std::max<int64_t>(deadline_ns_ - home_.now_ns(), 0),
                           [this](Result<std::unique_ptr<Connection>> far) { OnFar(std::move(far)); });
  }

  void OnFar(Result<std::unique_ptr<Connection>> made) {
    OnDialed on_dialed = std::move(on_dialed_);
    if (made.ok()) {
      on_dialed(std::move(made));  // may destroy us
    } else {
      // The age is counted from the beginning of this dial, not from that of the far one.
      on_dialed(made.status().AgeMsAtLeast((home_.now_ns() - began_ns_) / kMillisecondNs));
    }
  }

  Both& both_;
  reactor::Reactor& home_;
  const Address address_;
  OnDialed on_dialed_;
  int64_t began_ns_ = 0;
  int64_t deadline_ns_ = 0;
  std::unique_ptr<Dialing> now_;
};

class NearestTransport final : public Transport {
 public:
  NearestTransport(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far)
      : both_{std::move(near), std::move(far)} {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    // shared_ptr: both listeners deliver connections, and either may be destroyed last.
    auto arrived = std::make_shared<OnIncoming>(std::move(on_incoming));
    auto listen = [&home, &arrived](Transport& transport, const Address& at) {
      return transport.Listen(home, at, [arrived](std::unique_ptr<Incoming> one) { (*arrived)(std::move(one)); });
    };
    // A known port may be dialled already: a peer that finds the far listener must find the near one as well.
    Result<std::unique_ptr<Listener>> near = Status::Internal("not yet");
    if (address.port != 0) near = listen(*both_.near, address);
    Result<std::unique_ptr<Listener>> far = listen(*both_.far, address);
    if (!far.ok()) return far;
    if (address.port == 0) near = listen(*both_.near, far.value()->address());
    if (!near.ok()) both_.TellFar(far.value()->address(), near.status(), home.now_ns());
    return std::unique_ptr<Listener>(
        std::make_unique<NearestListener>(near.ok() ? std::move(near).value() : nullptr, std::move(far).value()));
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto dialing = std::make_unique<NearestDialing>(&both_, home, address, std::move(on_dialed));
    dialing->Start(timeout_ns);
    return dialing;
  }
  bool HandsOver() const override { return both_.near->HandsOver() && both_.far->HandsOver(); }
  size_t GreetingBytes() const override { return std::max(both_.near->GreetingBytes(), both_.far->GreetingBytes()); }

 private:
  Both both_;
};

}  // namespace

std::unique_ptr<Transport> MakeNearest(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far) {
  return std::make_unique<NearestTransport>(std::move(near), std::move(far));
}

}  // namespace fusewire::transport
