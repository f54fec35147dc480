// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := text
// Texts from users and files: numbers, addresses, hosts, networks, and the table of algorithms. An accepted text is
// written the same way again; a refused one causes an error of one line with a bounded length.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/parse.h"
#include "fusewire/collective/schedule/choice.h"
#include "fusewire/task/transport_choice.h"
#include "fusewire/transport/listening.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace {

constexpr size_t kWordsBytesMax = 2000;

void TryNumber(const std::string& text) {
  uint64_t start = 0;
  (void)ParseStart(text, &start);
  int16_t number = 0, again = 0;
  if (!ParseNumber(text, &number)) return;
  FUSEWIRE_CHECK(ParseNumber(std::to_string(number), &again));
  FUSEWIRE_CHECK(again == number);
}

void TryAddress(const std::string& text) {
  (void)transport::SaysLoopback(text);
  transport::SocketAddress numeric, ten;
  FUSEWIRE_CHECK(transport::ParseNumeric("10.0.0.7", 0, &ten));
  // Numbers are taken as they are: no name is resolved.
  if (text == "*" || transport::ParseNumeric(text, 1, &numeric)) (void)transport::WhereToListen(text);
  const std::vector<transport::OwnAddress> own = {{"eth0", "10.0.0.7", ten}};
  const Result<std::string> within = transport::AddressInNetwork(text, own);
  FUSEWIRE_CHECK(within.ok() ? within.value() == "10.0.0.7" : within.status().code() == Code::kInvalid);
  Result<transport::Address> address = transport::Address::Parse(text);
  if (!address.ok()) {
    FUSEWIRE_CHECK(address.status().code() == Code::kInvalid);
    return;
  }
  Result<transport::Address> again = transport::Address::Parse(address.value().ToString());
  FUSEWIRE_CHECK(again.ok());
  FUSEWIRE_CHECK(again.value().host == address.value().host);
  FUSEWIRE_CHECK(again.value().port == address.value().port);
}

void TryTable(const std::string& text) {
  Result<std::vector<collective::TableRow>> rows = collective::ParseTable(text);
  if (!rows.ok()) {
    FUSEWIRE_CHECK(rows.status().code() == Code::kInvalid);
    FUSEWIRE_CHECK(rows.status().cause().size() <= kWordsBytesMax);
    return;
  }
  const std::string again = collective::WriteTable(rows.value());
  Result<std::vector<collective::TableRow>> twice = collective::ParseTable(again);
  FUSEWIRE_CHECK(twice.ok());
  FUSEWIRE_CHECK(collective::WriteTable(twice.value()) == again);
  for (const collective::TableRow& row : rows.value()) {
    const collective::Choice choice =
        collective::Choose(row.kind, row.ranks, row.bytes_max, collective::LinkCost(), rows.value(), true, {});
    FUSEWIRE_CHECK(choice.segment_bytes > 0);
  }
}

}  // namespace
}  // namespace fusewire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 64 * 1024) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fusewire::TryNumber(text);
  fusewire::TryAddress(text);
  fusewire::TryTable(text);
  fusewire::task::TransportChoice wire;
  (void)fusewire::task::TransportChoiceOf(text, &wire);
  return 0;
}
