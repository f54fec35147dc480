// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TLS 1.3 over another transport: both ends show a certificate of an authority that the other one trusts.
// Home: as in transport.h. Owns: the transport beneath, and the certificates. Fails: MakeTls, if a file or OpenSSL
// cannot be used; a connection as in context.h.
#pragma once

#include <memory>
#include <string>

#include "fusewire/base/status.h"
#include "fusewire/transport/protection.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

Result<std::unique_ptr<Transport>> MakeTls(std::unique_ptr<Transport> beneath, TlsOptions options);
// A few words on OpenSSL and on this task's certificate, or why they cannot be used. Without files: on OpenSSL alone.
Result<std::string> TryTls(const TlsOptions& options);

}  // namespace fusewire::transport
