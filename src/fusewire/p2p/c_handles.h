// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What stands behind handles of the C API, for rooms above that add to it.
// Home: any thread. Owns: a handle its object. Fails: Say keeps a status for fusewire_error.
#ifndef FUSEWIRE_P2P_C_HANDLES_H_
#define FUSEWIRE_P2P_C_HANDLES_H_

#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/p2p/c_api.h"
#include "fusewire/p2p/endpoint.h"

struct fusewire_endpoint {
  std::unique_ptr<fusewire::p2p::Endpoint> endpoint;
  std::string address;
};

namespace fusewire {
namespace p2p {

// Of a failure: its code; its words are the calling thread's from now on.
int Say(const Status& status);

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_C_HANDLES_H_
