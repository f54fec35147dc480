// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Raw sockets, as a careful programmer would use them: TCP, and a unix socket between two processes of one host.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "bench/p2p/ends.h"
#include "bench/raw/sockets.h"

namespace fusewire::bench {
namespace {

class SocketEnd final : public End {
 public:
  SocketEnd(int fd, bool busy) : fd_(fd), busy_(busy) {}
  void Send(const void* data, size_t size, uint64_t count) override {
    for (uint64_t i = 0; i < count; ++i) (busy_ ? WriteAllBusy : WriteAll)(fd_, data, size);
  }
  void Receive(void* data, size_t size, uint64_t count) override {
    for (uint64_t i = 0; i < count; ++i) {
      if (!(busy_ ? ReadAllBusy : ReadAll)(fd_, data, size)) std::_Exit(0);  // the client has what it wants
    }
  }

 private:
  const int fd_;
  const bool busy_;
};

// An abstract name chosen by the server.
int MakeUnix(const Way& way) {
  std::string name = "bench-" + std::to_string(getpid());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) DieOfErrno("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto fill = [&address](const std::string& text) {
    std::memcpy(address.sun_path + 1, text.data(), text.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  };
  if (way.serves) {
    const socklen_t length = fill(name);
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(fd, 1) != 0) DieOfErrno("bind");
  }
  name = Swap(way, name);
  if (way.serves) return accept(fd, nullptr, nullptr);
  const socklen_t length = fill(name);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) DieOfErrno("connect");
  return fd;
}

std::unique_ptr<End> MakeSocketEnd(const Way& way) {
  return std::make_unique<SocketEnd>(way.wire == "tcp" ? way.side : MakeUnix(way), way.busy);
}

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  return fusewire::bench::MainOfEnds(argc, argv, "p2p_sockets", {"tcp", "unix"}, fusewire::bench::MakeSocketEnd);
}
