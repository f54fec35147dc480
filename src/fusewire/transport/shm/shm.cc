// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/shm.h"

#include <unistd.h>

#include <fstream>
#include <utility>

#include "fusewire/transport/shm/meeting.h"
#include "fusewire/transport/shm/shm_dialing.h"
#include "fusewire/transport/shm/shm_listener.h"

namespace fusewire {
namespace transport {
namespace {

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(ShmOptions options) : resolver_(std::move(options.resolve)), options_(std::move(options)) {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    return ShmListener::Open(home, address, options_, std::move(on_incoming));
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto dialing = std::make_unique<ShmDialing>(home, address, options_, std::move(on_dialed));
    dialing->Start(&resolver_, timeout_ns);
    return dialing;
  }

 private:
  Resolver resolver_;
  const ShmOptions options_;
};

}  // namespace

std::unique_ptr<Transport> MakeShm(ShmOptions options) { return std::make_unique<ShmTransport>(std::move(options)); }

bool MayLend() {
  std::ifstream yama("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (yama >> scope && scope != 0 && geteuid() != 0) return false;  // parents may read their children, and nobody else
  return CanRead(getpid(), ProbeAddress(), ProbeWord());
}

}  // namespace transport
}  // namespace fusewire
