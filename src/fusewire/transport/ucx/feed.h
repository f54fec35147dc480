// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Bytes that are here already, for a handler that says where it wants them.
// Home: that of the handler. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_TRANSPORT_UCX_FEED_H_
#define FUSEWIRE_TRANSPORT_UCX_FEED_H_

#include "fusewire/base/bytes.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace transport {

// Gives it all of `data`, or what it takes until it has closed the connection.
void Feed(ConnectionHandler* handler, const bool* closed, ConstBytes data);

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_UCX_FEED_H_
