// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A child process of the same program that serves on a port of its choice, and ends at the latest with its parent.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "fusewire/base/status.h"

namespace fusewire::demo {

class ChildProcess {
 public:
  // Starts this program as `program --serve what port`. `port` is the port to use; 0: any.
  static Result<ChildProcess> Start(const char* what, uint16_t port = 0);
  // In the child: reports its port.
  static void Ready(uint16_t port);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess() { Kill(); }

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  // SIGKILL: without a goodbye.
  void Kill();

 private:
  ChildProcess(pid_t pid, uint16_t port) : pid_(pid), port_(port) {}
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

}  // namespace fusewire::demo
