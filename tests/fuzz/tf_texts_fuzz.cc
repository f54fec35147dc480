// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := text
// Texts that the plug-in reads: what another task says about its data port, the file .endpoint_map, and an operator's
// words for the network. What is taken is written the same way again, or is what other parsers take.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/server/network.h"

namespace fusewire::tf {
namespace {

constexpr size_t kWordsBytesMax = 600;

void TryDataPort(const std::string& text) {
  DataPort port, again;
  if (!DecodeDataPort(text, &port)) return;
  FUSEWIRE_CHECK(DecodeDataPort(EncodeDataPort(port), &again));
  FUSEWIRE_CHECK(EncodeDataPort(again) == EncodeDataPort(port));
  FUSEWIRE_CHECK(again.advertised == port.advertised);
}

void TryEndpointMap(const std::string& text) {
  std::string bad;
  for (const auto& [from, to] : ParseEndpointMap(text, &bad)) {
    FUSEWIRE_CHECK(transport::Address::Parse(from).ok());
    FUSEWIRE_CHECK(transport::Address::Parse(to).ok());
  }
  FUSEWIRE_CHECK(bad.size() <= kWordsBytesMax);
}

void TryNetwork(const std::string& text) {
  pipe::PortRange ports;
  if (ParsePorts(text, &ports)) {
    FUSEWIRE_CHECK(ports.min >= 1);
    FUSEWIRE_CHECK(ports.min <= ports.max);
  }
  transport::Address advertise;
  const Status advertised = ParseAdvertise(text, &advertise);
  if (!advertised.ok()) {
    FUSEWIRE_CHECK(advertised.code() == Code::kInvalid);
    return;
  }
  FUSEWIRE_CHECK(!advertise.host.empty());
  FUSEWIRE_CHECK(transport::Address::Parse(advertise.ToString()).ok());
}

}  // namespace
}  // namespace fusewire::tf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 64 * 1024) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fusewire::tf::TryDataPort(text);
  fusewire::tf::TryEndpointMap(text);
  fusewire::tf::TryNetwork(text);
  return 0;
}
