// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/host.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "fusewire/base/random.h"

namespace fusewire::transport {

uint64_t HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat network = {};
  // Unix sockets with abstract names, by which processes meet, belong to it.
  if (!std::getline(file, boot) || boot.empty() || stat("/proc/thread-self/ns/net", &network) != 0) return 0;
  uint64_t id = 0;
  auto mix = [&id](uint64_t number) { id = Random(id ^ number).Next(); };
  for (const char letter : boot) mix(static_cast<uint8_t>(letter));
  mix(network.st_ino);
  return id == 0 ? 1 : id;
}

}  // namespace fusewire::transport
