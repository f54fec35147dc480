// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Two endpoints in one process: a message, a write into the other's memory, and operations that are prepared once.
#include <cstdio>
#include <memory>
#include <vector>

#include "fusewire/p2p/p2p.h"

namespace p2p = fusewire::p2p;

// A message from one lands in the other's memory.
bool Send(p2p::Endpoint& a, p2p::Endpoint& b, p2p::Peer& to_b, p2p::Peer& to_a) {
  // A receive has a landing and a tag, here 7. If it is posted ahead, a large message needs no round trip.
  std::vector<float> weights(1 << 20, 0.5F), landing(1 << 20);
  p2p::ReceiveOp receive(b, &to_a, 7, {landing.data(), landing.size() * sizeof(float)});
  receive.Post();
  fusewire::Status sent = a.Send(to_b, 7, {weights.data(), weights.size() * sizeof(float)});
  receive.Wait();
  std::printf("%s, %s: %llu bytes, the last is %.1f\n", sent.ToString().c_str(), receive.status().ToString().c_str(),
              static_cast<unsigned long long>(receive.bytes), static_cast<double>(landing.back()));
  return sent.ok() && receive.status().ok();
}

// One writes into the other's memory and signals it, without a receive.
bool Put(p2p::Endpoint& a, p2p::Endpoint& b, p2p::Peer& to_b) {
  // b opens memory and a signal. Their names are numbers, usually sent in a message.
  std::vector<int> table(1000);
  fusewire::Bytes memory(table.data(), table.size() * sizeof(int));
  auto region = p2p::Region::Open(b, fusewire::Buffer::Wrap(memory, nullptr, nullptr));
  auto arrived = p2p::Signal::Open(b);
  if (!region.ok() || !arrived.ok()) return false;

  // a writes ten numbers after the first hundred. The signal is increased once they have arrived.
  std::vector<int> numbers(10, 42), back(10);
  fusewire::Status put =
      a.Put(to_b, region.value()->ref(), 100 * sizeof(int), {numbers.data(), 10 * sizeof(int)}, arrived.value()->ref());
  fusewire::Status seen = b.Await(*arrived.value(), 1);
  fusewire::Status got = a.Get(to_b, region.value()->ref(), 100 * sizeof(int), {back.data(), 10 * sizeof(int)});
  std::printf("%s, %s, %s: %d %d\n", put.ToString().c_str(), seen.ToString().c_str(), got.ToString().c_str(),
              table[109], back[9]);
  return put.ok() && seen.ok() && got.ok();
}

// A thousand round trips with four operations that are prepared once.
bool RunPrepared(p2p::Endpoint& a, p2p::Endpoint& b, p2p::Peer& to_b, p2p::Peer& to_a) {
  int ping = 0, pong = 0, at_b = 0;
  p2p::SendOp send(a, to_b, 1, {&ping, sizeof(ping)});
  p2p::ReceiveOp answer(a, &to_b, 2, {&pong, sizeof(pong)});
  p2p::SendOp reply(b, to_a, 2, {&at_b, sizeof(at_b)});
  p2p::ReceiveOp hear(b, &to_a, 1, {&at_b, sizeof(at_b)});
  // b answers at home, at once; an operation may be posted again when it ends.
  hear.then = [&] {
    if (hear.status().ok()) ++at_b, reply.Post();
  };
  reply.then = [&] { hear.Post(); };
  hear.Post();
  for (; ping < 2000; ping = pong + 1) {
    answer.Post();
    send.Post();
    if (!answer.Wait() || !answer.status().ok()) return false;
  }
  std::printf("a and b counted to %d\n", pong);
  b.Close();  // ends b's posted operations, which are destroyed afterwards
  return pong == 1999;
}

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
  const bool is_ok = Send(*a.value(), *b.value(), *to_b.value(), *to_a.value()) &&
                     Put(*a.value(), *b.value(), *to_b.value()) &&
                     RunPrepared(*a.value(), *b.value(), *to_b.value(), *to_a.value());
  return is_ok ? 0 : 1;
}
