// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/shm.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "fusewire/base/random.h"
#include "fusewire/transport/shm/control_message.h"
#include "fusewire/transport/shm/others_memory.h"
#include "fusewire/transport/shm/shm_connection.h"
#include "fusewire/transport/shm/shm_dialing.h"
#include "fusewire/transport/shm/shm_listener.h"
#include "fusewire/transport/shm/shm_sender.h"

namespace fusewire::transport {

uint64_t HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat network = {};
  // Unix sockets with abstract names, by which processes meet, belong to it.
  if (!std::getline(file, boot) || boot.empty() || stat("/proc/thread-self/ns/net", &network) != 0) return 0;
  uint64_t id = 0;
  auto mix = [&id](uint64_t number) { id = Random(id ^ number).Next(); };
  for (const char letter : boot) mix(static_cast<uint8_t>(letter));
  mix(network.st_ino);
  return id == 0 ? 1 : id;
}
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
    const bool is_here = address.host.empty() || address.host == "*";
    dialing->Start(&resolver_, is_here ? "localhost" : address.host, timeout_ns);
    return dialing;
  }
  bool HandsOver() const override { return true; }

 private:
  Resolver resolver_;
  const ShmOptions options_;
};

}  // namespace

std::unique_ptr<Transport> MakeShm(ShmOptions options) { return std::make_unique<ShmTransport>(std::move(options)); }

uint64_t SharedBytesWritten() { return BytesWrittenByAll(); }

// For the kernel, a sandbox or a security module, a child that reads us is like any other task that does. Whether we
// may read ourselves, or our children, proves nothing.
bool MayLend() {
  const pid_t parent = getpid();
  const uint64_t address = ProbeAddress(), word = ProbeWord();
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) _exit(CanRead(parent, address, word) ? 0 : 1);
  int status = 0;
  pid_t ended;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace fusewire::transport
