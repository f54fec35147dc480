// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// ZeroMQ: a pair of PAIR sockets, over TCP and over its ipc. Large messages are sent by reference.
#include <unistd.h>
#include <zmq.h>

#include <cstdlib>

#include "bench/p2p/ends.h"

namespace fusewire::bench {
namespace {

constexpr size_t kByReference = 64 * 1024;

class ZmqEnd final : public End {
 public:
  explicit ZmqEnd(const Way& way) : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_PAIR)), busy_(way.busy) {
    const int depth = static_cast<int>(DepthOf(way.bytes));
    if (way.bytes > kByReference) {
      zmq_setsockopt(socket_, ZMQ_SNDHWM, &depth, sizeof(depth));
      zmq_setsockopt(socket_, ZMQ_RCVHWM, &depth, sizeof(depth));
    }
    if (way.serves) {
      const std::string wanted = way.wire == "tcp" ? "tcp://127.0.0.1:*" : "ipc://@bench-" + std::to_string(getpid());
      if (zmq_bind(socket_, wanted.c_str()) != 0) DieOfErrno("zmq_bind " + wanted);
      char address[256];
      size_t length = sizeof(address);
      if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, address, &length) != 0) DieOfErrno("zmq_getsockopt");
      Swap(way, address);
    } else if (zmq_connect(socket_, Swap(way, "").c_str()) != 0) {
      DieOfErrno("zmq_connect");
    }
  }

  void Send(const void* data, size_t size, uint64_t count) override {
    for (uint64_t i = 0; i < count; ++i) SendOne(data, size);
  }
  void Receive(void* data, size_t size, uint64_t count) override {
    for (uint64_t i = 0; i < count; ++i) {
      int got;
      do {
        got = zmq_recv(socket_, data, size, busy_ ? ZMQ_DONTWAIT : 0);
      } while (got < 0 && (zmq_errno() == EAGAIN || zmq_errno() == EINTR));
      if (got != static_cast<int>(size)) DieOfErrno("zmq_recv");
    }
  }

 private:
  void SendOne(const void* data, size_t size) {
    if (size <= kByReference) {
      if (zmq_send(socket_, data, size, 0) != static_cast<int>(size)) DieOfErrno("zmq_send");
      return;
    }
    zmq_msg_t message;
    const auto keep = [](void*, void*) {};
    if (zmq_msg_init_data(&message, const_cast<void*>(data), size, keep, nullptr) != 0) DieOfErrno("zmq_msg_init_data");
    if (zmq_msg_send(&message, socket_, 0) < 0) DieOfErrno("zmq_msg_send");
  }
  void* const context_;
  void* const socket_;
  const bool busy_;
};

std::unique_ptr<End> MakeZmqEnd(const Way& way) { return std::make_unique<ZmqEnd>(way); }

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  return fusewire::bench::MainOfEnds(argc, argv, "p2p_zmq", {"tcp", "ipc"}, fusewire::bench::MakeZmqEnd);
}
