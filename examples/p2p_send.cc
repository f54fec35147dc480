// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Two endpoints in one process: a message from one lands in the other's memory.
#include <cstdio>

#include "fusewire/p2p/p2p.h"

namespace p2p = fusewire::p2p;

int main() {
  // An endpoint has a name and an address; port 0 chooses a free port.
  auto start = [](const char* name) {
    p2p::EndpointOptions options;
    options.pipe.name = name;
    return p2p::Endpoint::Start(std::move(options), {"127.0.0.1", 0});
  };
  auto a = start("a"), b = start("b");
  if (!a.ok() || !b.ok()) return std::fprintf(stderr, "%s\n", (a.ok() ? b : a).status().ToString().c_str()), 1;

  // One side gives the address, the other waits to be dialled. If both gave addresses, one connection would remain.
  auto to_b = a.value()->Connect("b", b.value()->address());
  auto to_a = b.value()->Expect("a");
  if (!to_b.ok() || !to_a.ok()) return 1;

  // A receive has a landing and a tag, here 7. If it is posted ahead, a large message needs no round trip.
  std::vector<float> weights(1 << 20, 0.5F), landing(1 << 20);
  p2p::ReceiveOp receive(*b.value(), to_a.value(), 7, {landing.data(), landing.size() * sizeof(float)});
  receive.Post();
  fusewire::Status sent = a.value()->Send(*to_b.value(), 7, {weights.data(), weights.size() * sizeof(float)});
  receive.Wait();
  std::printf("%s, %s: %llu bytes, the last is %.1f\n", sent.ToString().c_str(), receive.status().ToString().c_str(),
              static_cast<unsigned long long>(receive.bytes), static_cast<double>(landing.back()));
  return sent.ok() && receive.status().ok() ? 0 : 1;
}
