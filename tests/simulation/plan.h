// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// All that chance decides about a run, drawn from its seed before the run begins: who takes part, what they ask each
// other, and what goes wrong when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/pipe/options.h"
#include "fusewire/rpc/client.h"
#include "fusewire/rpc/server.h"
#include "loopback/loopback.h"

namespace fusewire::simulation {

struct MemberPlan {
  pipe::Options pipe;
  rpc::ClientOptions client;
  rpc::ServerOptions server;
  bool stranger = false;  // another cluster or secret: nobody talks to it
};

// The fate of a call.
enum class Deed {
  kAnswer,        // bytes of the handler's own
  kEcho,          // the request's own Buffers
  kStream,        // parts, then an answer
  kForward,       // the handler asks somebody else first
  kFail,          // an error with all its words
  kDrop,          // the handler forgets its Reply
  kNoMethod,      // there is no such method
  kRefusedSink,   // the method does not want the request's body
  kWaitUnwanted,  // answers only once nobody wants it, or it has held it for long enough
};

// When and where the handler answers.
enum class When { kAtOnce, kLaterAtHome, kLaterElsewhere };

// Where the caller wants the answer's body.
enum class Place { kDefault, kOwn, kDiscard, kRefuse, kWrongSize };

struct Question {
  int number = 0;
  int from = 0, to = 0;
  int lane = 0;  // which of the asker's clients of that peer
  int64_t start_ns = 0;
  bool asked_by_other = false;  // started by the handler or the OnDone of another question
  int next = -1;                // started in OnDone
  int inner = -1;               // kForward: what the handler asks

  size_t head_bytes = 0;
  std::vector<size_t> request;
  bool sink = false;  // the method lands the request in memory of its own
  Deed deed = Deed::kAnswer;
  When when = When::kAtOnce;
  int64_t delay_ns = 0;
  size_t answer_head_bytes = 0;
  std::vector<size_t> answer;
  std::vector<std::vector<size_t>> parts;
  bool steady = false;  // each part waits for the Done of the one before

  int64_t timeout_ns = kForeverNs;
  int64_t cancel_after_ns = -1;
  int cancel_at_part = -1;
  Place place = Place::kDefault;
  bool free_landing = false;  // in OnDone, rather than watch it
};

enum class FaultKind {
  kCut,
  kHalfClose,
  kClog,
  kLose,
  kSlow,
  kRefuse,
  kLies,
  kKill,
  kPause,
  kZombie,  // stops, is replaced by a new incarnation elsewhere, and wakes up again
  kCloseServer,
  kCloseClients,
};
const char* NameOf(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kCut;
  int64_t at_ns = 0;
  int64_t duration_ns = 0;
  int one = 0, other = 0;            // kKill and below: one alone
  bool both_ways = true;             // else only what goes from one to the other
  bool silent = false;               // kKill: without a reset
  bool elsewhere = false;            // kKill: comes back at another host
  bool stays_away = false;           // kKill: for ever
  transport::LoopbackFaults faults;  // kSlow, kRefuse, kLies: what is worse than usual
};

struct Plan {
  uint64_t seed = 0;
  transport::LoopbackFaults network;
  std::vector<MemberPlan> members;
  std::vector<Question> questions;
  std::vector<Fault> faults;  // by time
  int64_t horizon_ns = 0;     // all starts and faults are before it
  bool lies = false;          // payload may be corrupted: it has no checksum, that is the network's part
  bool tight = false;         // queues or call slots are so small that calls are refused
};

Plan DrawPlan(uint64_t seed);

// Its parts; each draws from a chance of its own, so that one can change without the others.
void DrawMembers(Random* random, Plan* plan);
void DrawQuestions(Random* random, Plan* plan);
void DrawFaults(Random* random, Plan* plan);

// Every order of magnitude is as likely as the next.
uint64_t DrawLog(Random* random, uint64_t low, uint64_t high);

}  // namespace fusewire::simulation
