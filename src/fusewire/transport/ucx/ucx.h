// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// RDMA through UCX, on top of another transport: two ends meet over the lower one, and where both can, their stream
// moves to UCX; where one of them cannot, it stays where it began. See README.md beside this.
// libucp is loaded when it is first needed and never required.
// Home: as in transport.h; one transport may serve many reactors, and each has a UCX worker of its own, for as long as
// it lives. Owns: the lower transport. Fails: as the lower one does; a connection whose UCX fails, fails.
// A dialler speaks first: a listener's words wait until it knows what kind of peer it has.
#pragma once

#include <memory>
#include <string>

#include "fusewire/transport/transport.h"
#include "fusewire/transport/ucx/ucx_options.h"

namespace fusewire::transport {

std::unique_ptr<Transport> MakeUcx(std::unique_ptr<Transport> lower, UcxOptions options);

// For `fusewire doctor`. Loads the library; any thread.
struct UcxDescription {
  bool loaded = false;
  std::string version;       // "1.13.1"
  std::string why_not;       // when it is not loaded: why, and what to do
  std::string rdma_devices;  // "mlx5_0:1 rxe0:1": those that are up
};
UcxDescription DescribeUcx(const UcxOptions& options);

}  // namespace fusewire::transport
