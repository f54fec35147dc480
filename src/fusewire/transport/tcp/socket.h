// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// System calls on TCP sockets, with their errors as a Status.
#ifndef FUSEWIRE_TRANSPORT_TCP_SOCKET_H_
#define FUSEWIRE_TRANSPORT_TCP_SOCKET_H_

#include "fusewire/base/status.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/tcp/tcp_options.h"

namespace fusewire {
namespace transport {

// A non-blocking socket, with all options that must be set before it connects to this address, or listens at it.
Result<Fd> MakeSocket(const SocketAddress& where, const TcpOptions& options);
// The options of an established connection.
void TuneConnected(int fd, const TcpOptions& options);

}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_TCP_SOCKET_H_
