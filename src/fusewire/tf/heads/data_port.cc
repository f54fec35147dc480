// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/heads/data_port.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "fusewire/transport/address.h"

namespace fusewire::tf {
namespace {

constexpr int kPortVersion = 1;
constexpr const char* kFuses = "fuses";
constexpr size_t kHostBytesMax = 255;  // as of a name in DNS

bool IsHost(const std::string& text) {
  Result<transport::Address> parsed = transport::Address::Parse(transport::Address{text, 1}.ToString());
  return parsed.ok() && parsed.value().host == text;
}

std::string Hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%" PRIx64, number);
  return text;
}

}  // namespace

std::string EncodeDataPort(const DataPort& port) {
  return "fusewire " + std::to_string(kPortVersion) + " " + std::to_string(port.port) + " " + Hex(port.incarnation) +
         " " + kFuses + " " + std::to_string(port.group_port) + " " + Hex(port.host) + " " +
         std::to_string(port.group_age) + (port.advertised.empty() ? "" : " " + port.advertised);
}

bool DecodeDataPort(const std::string& text, DataPort* port) {
  int version = 0;
  unsigned number = 0, group_number = 0;
  char more[16] = "", where[kHostBytesMax + 1] = "";
  static_assert(kHostBytesMax == 255);
  int read = std::sscanf(text.c_str(), "fusewire %d %u %" SCNx64 " %15s %u %" SCNx64 " %" SCNu32 " %255s", &version,
                         &number, &port->incarnation, more, &group_number, &port->host, &port->group_age, where);
  if (read < 3 || version != kPortVersion || number > UINT16_MAX) return false;
  if (read < 5 || group_number > UINT16_MAX) group_number = 0;
  if (read < 6) port->host = 0;
  if (read < 7) port->group_age = 0;
  port->advertised = read < 8 || !IsHost(where) ? "" : where;
  port->port = static_cast<uint16_t>(number);
  port->group_port = static_cast<uint16_t>(group_number);
  port->fuses = std::strcmp(more, kFuses) == 0;
  return true;
}

}  // namespace fusewire::tf
