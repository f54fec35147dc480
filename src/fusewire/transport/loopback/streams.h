// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The streams between the hosts of a loopback network, as long as they are in use.
// Home: the world's thread. Owns: no stream: their ends and pending events do.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "fusewire/transport/loopback/network.h"
#include "fusewire/transport/loopback/stream.h"

namespace fusewire::transport {

class Streams {
 public:
  explicit Streams(Network* network) : network_(*network) {}

  // Two streams that belong together: from `one` to `other`, and back.
  using Pair = std::pair<std::shared_ptr<Stream>, std::shared_ptr<Stream>>;
  Pair Connect(Host* one, Host* other);
  // In the order in which they were made.
  std::vector<std::shared_ptr<Stream>> InUse();
  // Delayed bytes may be due now.
  void PumpAll();

 private:
  Network& network_;
  std::vector<std::weak_ptr<Stream>> streams_;
};

}  // namespace fusewire::transport
