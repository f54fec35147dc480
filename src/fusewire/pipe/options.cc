// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/options.h"

#include <utility>

#include "fusewire/wire/hello.h"

namespace fusewire::pipe {

Status CheckOptions(const Options& options) {
  wire::Hello hello;
  hello.chunk_bytes = options.limits.chunk_bytes_max;
  hello.window_bytes = options.window_bytes;
  hello.cluster = options.cluster;
  hello.name = options.name;
  Status checked = wire::CheckHello(hello);
  const std::pair<const char*, int64_t> positive[] = {
      {"silent_ns_max", options.silent_ns_max},    {"hello_ns_max", options.hello_ns_max},
      {"connect_ns_max", options.connect_ns_max},  {"goodbye_ns_max", options.goodbye_ns_max},
      {"backoff_ns_min", options.backoff_ns_min},  {"greetings_max", options.greetings_max},
      {"connections_max", options.connections_max}};
  for (const auto& [name, value] : positive) {
    if (checked.ok() && value <= 0)
      checked = Status::Invalid(std::string(name) + " " + std::to_string(value) + ", must be over 0");
  }
  if (checked.ok() && options.backoff_ns_max < options.backoff_ns_min) {
    checked = Status::Invalid("backoff_ns_max " + std::to_string(options.backoff_ns_max) +
                              ", must be at least backoff_ns_min, " + std::to_string(options.backoff_ns_min));
  }
  if (checked.ok() && !options.secret.empty() && options.secret.size() < kSecretBytesMin) {
    checked = Status::Invalid("a secret of " + std::to_string(options.secret.size()) + " bytes, must have at least " +
                              std::to_string(kSecretBytesMin))
                  .Next("make one with `openssl rand -hex 32`, the same for all tasks of the cluster");
  }
  return checked.Phase("check the options").Next("correct this setting");
}

}  // namespace fusewire::pipe
