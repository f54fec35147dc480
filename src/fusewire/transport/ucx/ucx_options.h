// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The options of UCX.
#pragma once

#include <string>

namespace fusewire::transport {

struct UcxOptions {
  // Whether UCX is taken wherever it works, or only between two tasks that both have an RDMA device that is up: where
  // there is none when the transport is made, the lower one is all there is.
  bool always = true;
  // A name for the loader, or a path.
  std::string library = "libucp.so.0";
};

}  // namespace fusewire::transport
