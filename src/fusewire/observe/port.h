// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A port that answers requests on a thread of its own. What it calls for an answer may not wait: it has to answer while
// every other thread of the process is blocked.
// Home: its thread; made and destroyed on another. Owns: the thread, the listener, at most kConnectionsMax connections,
// and a descriptor for a process that has no other left. Fails: Open, with the reason. A connection that has not sent
// its request and read the answer after `patience_ns` in all is closed; before that, the oldest silent one, or the
// slowest reader, gives way to a new client when there is no place, descriptor or memory left.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/status.h"
#include "fusewire/observe/access.h"
#include "fusewire/observe/request.h"

namespace fusewire::observe {

class Port {
 public:
  static constexpr size_t kConnectionsMax = 16;
  static constexpr size_t kWaitingBytesMax = 32 << 20;  // of answers that are not read yet: pages have a few MiB

  struct Options {
    std::string host = "127.0.0.1";  // an address
    uint16_t port = 0;               // 0: the kernel chooses
    std::string secret;              // see access.h
    int64_t patience_ns = 5 * kSecondNs;
    // On the port's thread.
    std::function<Answer(const Request&)> answer;
    // The same, once in each `turn_ns`. May be null.
    std::function<void()> turn;
    int64_t turn_ns = kForeverNs;
    // On the port's thread: the hosts at which tasks of this process are reached, if that is not the address at which a
    // connection arrives here. May be null.
    std::function<std::vector<std::string>()> hosts;
  };
  static Result<std::unique_ptr<Port>> Open(Options options);
  // Ends the thread.
  ~Port();
  Port(const Port&) = delete;

  uint16_t port() const { return port_; }
  // In a child of fork(), which has the descriptors but not the thread: closes them. The object is then left alone.
  void CloseInChild();

 private:
  struct Connection {
    int socket = -1;
    int64_t begun_ns = 0;
    std::string in, out;
    size_t sent = 0;
  };
  Port(Options options, int listener, int wake, uint16_t port);
  void Work();
  void Accept(int64_t now_ns);
  int TakeNext();
  bool MakeRoom(int64_t now_ns);
  void MakeRoomFor(size_t bytes);
  Here HereOf(int socket) const;
  void Read(Connection* connection);
  void Write(Connection* connection);
  void Close(Connection* connection);

  const Options options_;
  const int listener_, wake_;
  const uint16_t port_;
  Access access_;
  std::atomic<bool> ends_{false};
  std::vector<Connection> connections_;  // of the thread, as the next three
  int64_t rests_until_ns_ = 0, turns_at_ns_ = 0;
  std::atomic<int> spare_;  // closed to accept one connection when no descriptor is left
  std::atomic<int> sockets_[kConnectionsMax];
  std::thread thread_;
};

}  // namespace fusewire::observe
