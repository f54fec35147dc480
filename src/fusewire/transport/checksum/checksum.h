// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Checksums over another transport: a byte that changes on its way ends its connection, and is never delivered.
//   stream := preamble record*
//   preamble := "FWSUM" 0:u8 version:u16, 8 bytes
//   record := bytes:u32 check:u32 u8[bytes]; check is the CRC-32C of bytes and u8[bytes]; 1 to 16384 bytes
// Numbers are little-endian. It protects from accidents, not from people: see TLS.
// Home: as in transport.h. Owns: the transport beneath. Fails: a connection with kCorrupt.
#pragma once

#include <memory>

#include "fusewire/transport/layer_session.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

std::unique_ptr<Session> MakeChecksumSession();
std::unique_ptr<Transport> MakeChecksum(std::unique_ptr<Transport> beneath);

}  // namespace fusewire::transport
