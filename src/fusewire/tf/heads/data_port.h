// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a task says about its data port when it is asked over gRPC, as a text; see peer/peer.h.
//   port := "fusewire" version:decimal port:decimal incarnation:hex "fuses" group_port:decimal host:hex age:decimal
//           [advertised:host]
// with one space between. A reader ignores the words behind those that it knows.
// Home: none, plain values. Fails: Decode with false, for what no task with the plug-in says.
#pragma once

#include <cstdint>
#include <string>

namespace fusewire::tf {

struct DataPort {
  uint16_t port = 0;
  uint64_t incarnation = 0;
  // It answers a fused receive over gRPC, see peer/fused.h. The first versions did not send it, nor the next three.
  bool fuses = false;
  uint16_t group_port = 0;  // the port of its collectives; 0: none
  uint64_t host = 0;        // see transport/shm/host.h; 0: unknown
  uint32_t group_age = 0;   // how often its collectives have been restarted
  std::string advertised;   // the host at which it is reached; empty: the one that the cluster names
};

// Always with "fuses": this version answers fused receives.
std::string EncodeDataPort(const DataPort& port);
bool DecodeDataPort(const std::string& text, DataPort* port);

}  // namespace fusewire::tf
