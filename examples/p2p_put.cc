// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One endpoint writes into the other's memory and signals it, without a receive.
#include <cstdio>
#include <vector>

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
  if (!to_b.ok()) return 1;

  // b opens memory and a signal. Their names are numbers, usually sent in a message.
  std::vector<int> table(1000);
  fusewire::Bytes memory(table.data(), table.size() * sizeof(int));
  auto region = p2p::Region::Open(*b.value(), fusewire::Buffer::Wrap(memory, nullptr, nullptr));
  auto arrived = p2p::Signal::Open(*b.value());
  if (!region.ok() || !arrived.ok()) return 1;

  // a writes ten numbers after the first hundred. The signal is increased once they have arrived.
  std::vector<int> numbers(10, 42), back(10);
  fusewire::Status put = a.value()->Put(*to_b.value(), region.value()->ref(), 100 * sizeof(int),
                                        {numbers.data(), 10 * sizeof(int)}, arrived.value()->ref());
  fusewire::Status seen = b.value()->Await(*arrived.value(), 1);
  fusewire::Status got =
      a.value()->Get(*to_b.value(), region.value()->ref(), 100 * sizeof(int), {back.data(), 10 * sizeof(int)});
  std::printf("%s, %s, %s: %d %d\n", put.ToString().c_str(), seen.ToString().c_str(), got.ToString().c_str(),
              table[109], back[9]);
  return put.ok() && seen.ok() && got.ok() ? 0 : 1;
}
