// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// System calls on TCP sockets, with their errors as a Status.
#pragma once

#include "fusewire/base/status.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/tcp/tcp_options.h"

namespace fusewire::transport {

// A non-blocking socket, with all options that must be set before it connects to this address, or listens at it.
Result<Fd> MakeSocket(const SocketAddress& where, const TcpOptions& options);
// The options of an established connection.
void TuneConnected(int fd, const TcpOptions& options);

}  // namespace fusewire::transport
