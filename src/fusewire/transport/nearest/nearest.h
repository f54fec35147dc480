// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Two transports as one: each connection takes the near one where its peer can be met there, and the far one otherwise.
// Listens on both under one address; dials near first. A peer that is near but cannot be met there is dialled far, with
// one log line that says why.
// Home: as in transport.h. Owns: both. Fails: as the far one does.
#ifndef FUSEWIRE_TRANSPORT_NEAREST_NEAREST_H_
#define FUSEWIRE_TRANSPORT_NEAREST_NEAREST_H_

#include <memory>

#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

// `near` fails with kUnavailable, and soon, where the peer is not near.
std::unique_ptr<Transport> MakeNearest(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far);

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_NEAREST_NEAREST_H_
