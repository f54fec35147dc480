// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace fusewire::reactor {
namespace {

constexpr rlim_t kRaisedMax = 1 << 20;

bool Raise() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t wanted = std::min(limit.rlim_max, kRaisedMax);
  if (limit.rlim_cur >= wanted) return true;
  limit.rlim_cur = wanted;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

uint64_t DescriptorsMax() {
  [[maybe_unused]] static const bool raised = Raise();
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

}  // namespace fusewire::reactor
