// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer of a pipe.
#pragma once

#include <cstdint>
#include <string>

namespace fusewire::pipe {

// The peer, as its greeting describes it.
struct PeerInfo {
  std::string name;
  std::string address;
  uint64_t incarnation = 0;
  uint64_t features = 0;
  const char* wire = "";  // what the pipe runs over: "tcp", "shm" ...
  // "worker:3 (10.0.0.7:5555)"
  std::string ToString() const { return name.empty() ? address : name + " (" + address + ")"; }
};

}  // namespace fusewire::pipe
