// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A child process that serves on a port of its choice, and ends with us at the latest.
#ifndef FUSEWIRE_DEMO_PROCESS_H_
#define FUSEWIRE_DEMO_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "fusewire/base/status.h"

namespace fusewire {
namespace demo {

class ChildProcess {
 public:
  // `serve` runs in the child; it calls `ready` with its port and then stays until it is killed. `port` is what it
  // should take; 0: any.
  using Serve = std::function<void(uint16_t port, const std::function<void(uint16_t)>& ready)>;
  static Result<ChildProcess> Start(const Serve& serve, uint16_t port = 0);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess() { Kill(); }

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  // SIGKILL: it gets no chance to say goodbye.
  void Kill();

 private:
  ChildProcess(pid_t pid, uint16_t port) : pid_(pid), port_(port) {}
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

}  // namespace demo
}  // namespace fusewire

#endif  // FUSEWIRE_DEMO_PROCESS_H_
