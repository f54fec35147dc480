// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A thousand round trips with four operations that are prepared once.
#include <cstdio>

#include "fusewire/p2p/p2p.h"

namespace p2p = fusewire::p2p;

int main() {
  auto start = [](const char* name) {
    p2p::EndpointOptions options;
    options.pipe.name = name;
    return p2p::Endpoint::Start(std::move(options), {"127.0.0.1", 0});
  };
  auto a = start("a"), b = start("b");
  if (!a.ok() || !b.ok()) return std::fprintf(stderr, "%s\n", (a.ok() ? b : a).status().ToString().c_str()), 1;
  auto to_b = a.value()->Connect("b", b.value()->address());
  auto to_a = b.value()->Expect("a");
  if (!to_b.ok() || !to_a.ok()) return 1;

  int ping = 0, pong = 0, at_b = 0;
  p2p::SendOp send(*a.value(), *to_b.value(), 1, {&ping, sizeof(ping)});
  p2p::ReceiveOp answer(*a.value(), to_b.value(), 2, {&pong, sizeof(pong)});
  p2p::SendOp reply(*b.value(), *to_a.value(), 2, {&at_b, sizeof(at_b)});
  p2p::ReceiveOp hear(*b.value(), to_a.value(), 1, {&at_b, sizeof(at_b)});
  // b answers at home, at once; an operation may be posted again when it ends.
  hear.then = [&] {
    if (hear.status().ok()) ++at_b, reply.Post();
  };
  reply.then = [&] { hear.Post(); };
  hear.Post();
  for (; ping < 2000; ping = pong + 1) {
    answer.Post();
    send.Post();
    if (!answer.Wait() || !answer.status().ok()) return 1;
  }
  std::printf("a and b counted to %d\n", pong);
  b.value()->Close();  // ends b's posted operations, which are destroyed afterwards
  return pong == 1999 ? 0 : 1;
}
