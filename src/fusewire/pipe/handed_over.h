// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A connection whose peer has asked for another service than the pipe's, and the way to that service's home.
// Home: the pipe's, then the other service's. Owns: the connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/transport/transport.h"

namespace fusewire::pipe {

struct HandedOver {
  uint16_t service = 0;
  std::unique_ptr<transport::Incoming> incoming;
  Status refusal;             // not ok: the service is not offered, and this is what the peer is told
  std::string heard;          // its hello, and what came with it
  int64_t greeted_by_ns = 0;  // the rest of its greeting must have come by then
};

// Takes what comes in for another service.
class OtherHomes {
 public:
  // At the pipe's home, once, instead of all that a pipe tells its receiver. The pipe is of no use any more, and not to
  // be destroyed yet.
  virtual void OnHandedOver(HandedOver handed) = 0;

 protected:
  ~OtherHomes() = default;
};

}  // namespace fusewire::pipe
