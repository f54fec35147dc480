// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A transport over another one, which carries what this one makes of each connection's bytes: TLS, or checksums.
// Home: as in transport.h. Owns: the transport beneath. Fails: a connection as its session does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/transport/layer_session.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// For a connection that was dialled, or that has come. Any thread.
using MakeSession = std::function<Result<std::unique_ptr<Session>>(bool is_dialled)>;

// `session_bytes`: the memory of a session that has begun.
std::unique_ptr<Transport> MakeLayer(std::unique_ptr<Transport> beneath, size_t session_bytes,
                                     MakeSession make_session);

}  // namespace fusewire::transport
