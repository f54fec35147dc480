// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/orders.h"

#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include "fusewire/tf/server/hosting.h"

namespace fusewire::tf {
namespace {

constexpr const char* kSeeOrders = "; see: fusewire explain elastic#orders";
constexpr size_t kShownBytesMax = 80;

TfStatus Refused(const std::string& words, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", words.substr(0, kShownBytesMax), "\" is not done: ", why, kSeeOrders));
}

}  // namespace

TfStatus Obey(const std::string& words, const tensorflow::ServerDef& def, const Adopt& adopt, std::string* done) {
  absl::string_view task = words;
  if (!absl::ConsumePrefix(&task, "adopt ")) return Refused(words, "it is no order; next: write adopt JOB:INDEX");
  Result<std::vector<int>> index = ReadTasks(std::string(task), def, "the task");
  if (!index.ok()) return Refused(words, index.status().cause());
  if (index.value().size() != 1) return Refused(words, "this process is to take over one task that is not its own");
  TfStatus adopted = adopt(index.value()[0], done);
  if (adopted.ok()) return adopted;
  return TfStatus(adopted.code(), absl::StrCat("\"", words, "\" is not done: ", adopted.message(), kSeeOrders));
}

}  // namespace fusewire::tf
