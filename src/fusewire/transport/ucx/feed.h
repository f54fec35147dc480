// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Bytes that are here already, for a handler that says where it wants them.
// Home: that of the handler.
#pragma once

#include "fusewire/base/bytes.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// Gives it all of `data`, or what it takes until it has closed the connection.
void Feed(ConnectionHandler* handler, const bool* closed, ConstBytes data);

}  // namespace fusewire::transport
