// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/transports.h"

#include <utility>

#include "fusewire/base/log.h"
#include "fusewire/transport/ucx/library.h"
#include "fusewire/transport/ucx/ucx_connection.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_UCX

namespace {

// This home's worker. Null if it could not be made, which is logged.
UcxWorker* WorkerOf(reactor::Reactor& home, const UcxOptions& options) {
  Result<UcxWorker*> worker = UcxWorker::Of(home, options);
  return worker.ok() ? worker.value() : nullptr;
}

class UcxIncoming final : public Incoming {
 public:
  UcxIncoming(std::unique_ptr<Incoming> lower, const UcxOptions& options)
      : lower_(std::move(lower)), options_(options) {}
  Result<std::unique_ptr<Connection>> Adopt(reactor::Reactor& home) override {
    Result<std::unique_ptr<Connection>> lower = lower_->Adopt(home);
    if (!lower.ok()) return lower;
    UcxWorker* worker = WorkerOf(home, options_);
    return std::unique_ptr<Connection>(
        std::make_unique<UcxConnection>(home, worker, options_, std::move(lower).value(), std::string()));
  }
  const std::string& peer_address() const override { return lower_->peer_address(); }

 private:
  const std::unique_ptr<Incoming> lower_;
  const UcxOptions& options_;
};

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::unique_ptr<Transport> lower, UcxOptions options)
      : lower_(std::move(lower)), options_(std::move(options)) {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    return lower_->Listen(home, address,
                          [this, arrived = std::move(on_incoming)](std::unique_ptr<Incoming> incoming) mutable {
                            arrived(std::make_unique<UcxIncoming>(std::move(incoming), options_));
                          });
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto made = [this, &home, peer = address.ToString(),
                 on_dialed = std::move(on_dialed)](Result<std::unique_ptr<Connection>> lower) mutable {
      UcxWorker* worker = lower.ok() ? WorkerOf(home, options_) : nullptr;
      if (worker == nullptr || worker->strangers().Has(peer)) return on_dialed(std::move(lower));
      auto connection = std::make_unique<UcxConnection>(home, worker, options_, std::move(lower).value(), peer);
      connection->Greet();
      on_dialed(std::unique_ptr<Connection>(std::move(connection)));
    };
    return lower_->Dial(home, address, timeout_ns, std::move(made));
  }

 private:
  const std::unique_ptr<Transport> lower_;
  const UcxOptions options_;
};

}  // namespace

std::unique_ptr<Transport> MakeUcx(std::unique_ptr<Transport> lower, UcxOptions options) {
  if (!options.always && RdmaDevices().empty()) return lower;
  return std::make_unique<UcxTransport>(std::move(lower), std::move(options));
}

UcxDescription DescribeUcx(const UcxOptions& options) {
  UcxDescription description;
  description.rdma_devices = RdmaDevices();
  Result<UcxLibrary> library = UcxLibrary::Load(options.library);
  description.loaded = library.ok();
  if (library.ok()) {
    description.version = library.value().Version();
  } else {
    description.why_not = library.status().ToString();
  }
  return description;
}

#else

std::unique_ptr<Transport> MakeUcx(std::unique_ptr<Transport> lower, UcxOptions options) {
  if (options.always) {
    FUSEWIRE_LOG(kWarn,
                 "this build goes without UCX: it was built where libucx-dev is missing; all goes over the wire "
                 "below; see: fusewire explain rdma#requirements-and-limits");
  }
  return lower;
}

UcxDescription DescribeUcx(const UcxOptions&) {
  UcxDescription description;
  description.why_not = "built without UCX: install libucx-dev and build again";
  description.rdma_devices = RdmaDevices();
  return description;
}

#endif

}  // namespace fusewire::transport
