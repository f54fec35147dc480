// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The heads of the other calls between tasks, as plain values: of steps and measurements (peer/methods.h draws them),
// and of parts of graphs (star/words.h). Home: none, pure functions. Owns: nothing: it points into the message. Fails:
// with what is wrong, or as it is said.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

// ---- steps ----
constexpr size_t kCleanupsMax = 256;  // in one call
// Calls `each` for the steps to clean up, as it reads them. False: they are cut off, or too many.
bool DecodeCleanups(VarReader* reader, const std::function<void(int64_t)>& each);
Status DecodeAbort(ConstBytes head, int64_t* step);

// ---- measurements ----
Status DecodeEcho(ConstBytes head, bool has_body, uint64_t* bytes);

// ---- parts of graphs ----
enum RunFlags : uint8_t { kTraced = 1 };
constexpr uint8_t kRunFlagsAll = kTraced;
// The most values of a step; no graph passes on so many.
constexpr uint32_t kKeptNumbersMax = 1 << 20;
// The values of one call: no more than it can have segments.
constexpr size_t kKeptInCallMax = 65535;

struct PlaceHead {
  ConstBytes session, fingerprint;
};
Status DecodePlaceHead(ConstBytes head, PlaceHead* place);
// Of the answer, behind its status.
Status DecodePlaced(VarReader* reader, uint64_t* part);

struct RunHead {
  uint64_t part = 0;
  int64_t step = 0;
  bool is_traced = false;
};
Status DecodeRunHead(VarReader* reader, RunHead* run);

struct KeepHead {
  ConstBytes session;
  int64_t step = 0;
};
// Where it is cut off, reader->ok() is false.
KeepHead DecodeKeepHead(VarReader* reader);
struct KeptHead {
  uint32_t number = 0, takers = 0;
};
Status DecodeKeptHead(VarReader* reader, KeptHead* kept);

// What a task says about its data port when it is asked over gRPC, as a text; see peer/peer.h.
//   port := "fusewire" version:decimal port:decimal incarnation:hex "fuses" group_port:decimal host:hex age:decimal
//           [advertised:host]
// with one space between. A reader ignores the words behind those that it knows.
// Home: none, plain values. Fails: Decode with false, for what no task with the plug-in says.
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
