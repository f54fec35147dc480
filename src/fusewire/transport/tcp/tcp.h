// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TCP over IPv4 and IPv6, on epoll.
// Home: as in transport.h; one TcpTransport may serve many reactors. Owns: a resolver thread, from the first host name.
// Fails: as in transport.h.
#pragma once

#include <memory>

#include "fusewire/transport/tcp/tcp_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

std::unique_ptr<Transport> MakeTcp(TcpOptions options);

}  // namespace fusewire::transport
