// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The calls between tasks: their methods, and the heads of all but receives (receives.h), as plain values.
// Home: none, pure functions. Owns: nothing: it points into the message. Fails: with what is wrong, or as it is said.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/heads/receives.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

// The methods that tasks call at each other, by number, and the formats of their messages.
//   A method of TensorFlow's WorkerService carries its protobufs: the request in the head, or, when it is long, in the
//   one segment of the body; answer := status content, the content likewise.
//   receive: wants (peer/keys.h) -> answer*, in parts as they get ready
//   answer  := index:varint kind:u8 [status | tensor]
enum MethodNumber : uint16_t {
  kRunGraph = 1,  // request := cleanups:varint step:u64[cleanups] proto
  kRegisterGraph = 2,
  kDeregisterGraph = 3,
  kCleanupGraph = 4,  // request := cleanups:varint step:u64[cleanups]
  kCleanupAll = 5,
  kReceive = 6,
  kReceiveBuffer = 7,
  kCompleteInstance = 9,
  kGetStepSequence = 10,
  kAbortStep = 11,  // request := step:u64
  kPlacePart = 12,  // drawn below, as the two that follow
  kRunPart = 13,
  kKeepValues = 14,
  kEcho = 15,         // request := bytes:u64; answer := that many bytes without meaning, head: the wire
  kWhereabouts = 16,  // drawn below
  kGetStatus = 17,    // the control plane of a task that is no more where its cluster says
  kCreateWorkerSession = 18,
  kDeleteWorkerSession = 19,
  kHandOver = 20,  // heads/moves.h
  kTakeTask = 21,  // likewise
};
constexpr uint16_t kMethodsEnd = kTakeTask + 1;

// An application error of kReceive: send the keys again.
constexpr uint32_t kUnknownKeys = 1;

// ---- steps ----
constexpr size_t kCleanupsMax = 256;  // in one call
// Calls `each` for the steps to clean up, as it reads them. False: they are cut off, or too many.
bool DecodeCleanups(VarReader* reader, const std::function<void(int64_t)>& each);
Status DecodeAbort(ConstBytes head, int64_t* step);

// ---- measurements ----
Status DecodeEcho(ConstBytes head, bool has_body, uint64_t* bytes);

// ---- parts of graphs, between a worker and a parameter server ----
//   place (kPlacePart)  := session:text fingerprint:text, and in the body, if it is asked for, the part as TensorFlow
//                          registers a partition: a RegisterGraphRequest
//   answer              := status [part:u64 [again:u8]]     0: the part is not known here, send it
//   run (kRunPart)      := part:u64 step:u64 flags:u8 [ticket] tensor*
//   ticket              := client:u64 number:varint open:varint
//   answer              := status [tensor* [stats:text]]
//   keep (kKeepValues)  := session:text step:u64 (number:varint takers:varint tensor)*     between parameter servers
//   answer              := nothing
// Application errors of kRunPart: place the part again; and the run with this ticket has ended, but its answer was not
// kept.
constexpr uint32_t kUnknownPart = 2;
constexpr uint32_t kAnswerGone = 3;
enum RunFlags : uint8_t { kTraced = 1, kWithTicket = 2 };
constexpr uint8_t kRunFlagsAll = kTraced | kWithTicket;
// What a worker may do with a run whose connection is lost. A parameter server from before tickets says nothing.
enum class Again : uint8_t {
  kNever = 0,   // the part may wait for other steps
  kFreely = 1,  // it only reads
  kTicket = 2,  // its runs have tickets, and one that comes twice runs once
  kLeaves = 3,  // likewise; it only reads, and leaves values: where these are lost, another run leaves them again
};
inline bool HasTickets(Again again) { return again == Again::kTicket || again == Again::kLeaves; }
// The most values of a step; no graph passes on so many.
constexpr uint32_t kKeptNumbersMax = 1 << 20;
// The values of one call: no more than it can have segments.
constexpr size_t kKeptInCallMax = 65535;

struct PlaceHead {
  ConstBytes session, fingerprint;
};
Status DecodePlaceHead(ConstBytes head, PlaceHead* place);
// Of the answer, behind its status.
Status DecodePlaced(VarReader* reader, uint64_t* part, Again* again);

// Of one run of a part that writes: the same in each copy of its request.
struct Ticket {
  uint64_t client = 0;
  uint64_t number = 0;  // 0: none; one client never uses a number twice
  uint64_t open = 0;    // the client has the answers to all numbers below
};
void AppendTicket(const Ticket& ticket, std::string* out);

struct RunHead {
  uint64_t part = 0;
  int64_t step = 0;
  bool is_traced = false;
  Ticket ticket;
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
//           [advertised:host] ["state/" state:hex] ["epoch/" epoch:decimal] ["joins/"]
// with one space between. A reader ignores words that it does not know; to one from before the state, the words with a
// slash are invalid hosts.
// Home: none, plain values. Fails: Decode with false, for a text that no task with the plug-in sends.
struct DataPort {
  uint16_t port = 0;
  uint64_t incarnation = 0;
  // It answers a fused receive over gRPC, see peer/fused.h. The first versions did not send it, nor the next three.
  bool fuses = false;
  uint16_t group_port = 0;  // the port of its collectives; 0: none
  uint64_t host = 0;        // see transport/shm/host.h; 0: unknown
  uint32_t group_age = 0;   // how often its collectives have been restarted
  std::string advertised;   // the host at which it is reached; empty: the one that the cluster names
  // Of its variables. A task that is restarted with what it had says the same again; 0: it would come back empty.
  uint64_t state = 0;
  // Of such a task: how often it has been taken over. Its calls are those from kWhereabouts on, too.
  uint64_t epoch = 0;
  bool joins = false;  // its collectives begin in a new group once all members have found it
};

// In the error of a server whose task another process has. The server lives, and knows where the task is, or will know.
constexpr const char* kLostItsTask = "this server has lost its task to another one";

// Always with "fuses": this version answers fused receives.
std::string EncodeDataPort(const DataPort& port);
bool DecodeDataPort(const std::string& text, DataPort* port);

// ---- where tasks are ----
//   whereabouts := count:varint (task:text address:text incarnation:u64 state:u64 epoch:varint)*
// The request is what the caller knows of tasks with an epoch, and the answer what the called task knows then.
struct Whereabout {
  std::string task;                     // "ps:3"
  std::string address;                  // of its data port, "host:port"
  uint64_t incarnation = 0, state = 0;  // see DataPort
  uint64_t epoch = 0;
};
constexpr size_t kWhereaboutsMax = 4096;
std::string EncodeWhereabouts(const std::vector<Whereabout>& known);
Status DecodeWhereabouts(ConstBytes in, std::vector<Whereabout>* known);

}  // namespace fusewire::tf
