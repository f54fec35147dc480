// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The objects behind the handles of the C API, for rooms above that extend it.
// Home: any thread. Owns: a handle owns its object. Fails: KeepError keeps a status for fusewire_error.
#pragma once

#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/p2p/endpoint.h"

struct fusewire_endpoint {
  std::unique_ptr<fusewire::p2p::Endpoint> endpoint;
  std::string address;
};

namespace fusewire::p2p {

// Keeps the failure for fusewire_error() on the calling thread. Returns its code.
int KeepError(const Status& status);

}  // namespace fusewire::p2p
