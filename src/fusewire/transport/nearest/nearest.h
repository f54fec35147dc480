// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Combines two transports: a connection uses the near one if its peer can be reached there, and the far one otherwise.
// Listens on both under one address; dials near first. A peer that is near but can't be reached there is dialled far,
// with one log line that says why.
// Home: as in transport.h. Owns: both transports. Fails: as the far one does.
#pragma once

#include <memory>

#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// `near` must fail soon, with kUnavailable, if the peer is not near.
std::unique_ptr<Transport> MakeNearest(std::unique_ptr<Transport> near, std::unique_ptr<Transport> far);

}  // namespace fusewire::transport
