// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The common state of the parts of one run: the world, the plan, and the state of each call.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/rpc/rpc.h"
#include "fusewire/wire/wire.h"
#include "journal.h"
#include "loopback/loopback.h"
#include "loopback/network.h"
#include "meddle.h"
#include "memory.h"
#include "plan.h"

namespace fusewire::simulation {

class Member;

// One incarnation of a member's client: calls must end before it is gone.
struct ClientLife {
  bool closing = false;
  bool gone = false;
};

// The events of one call so far.
struct Record {
  const Question* question = nullptr;
  std::unique_ptr<rpc::Call> call;  // from its start until its OnDone
  std::shared_ptr<ClientLife> client;
  std::deque<Landing> landings;
  bool started = false;
  bool cancelled = false;
  int64_t started_ns = 0;
  int64_t done_ns = 0;
  int dones = 0;
  int handled = 0;
  int64_t handled_ns = 0;
  size_t parts_seen = 0;
  size_t landed_bytes = 0;  // where a body is coming in
  uint64_t holder = 0;      // the incarnation of the member that asked
  Status status;
  UniqueFunction<void(const Status&)> then;  // who else wants to hear of the end
};

class Run {
 public:
  Run(uint64_t seed, Meddle meddle, bool print);
  ~Run();

  int64_t now_ns() { return world.clock()->NowNs(); }
  Record& record(int number) { return records[static_cast<size_t>(number)]; }
  Member& member(int index) { return *members[static_cast<size_t>(index)]; }
  // Outside of every home, at this moment of virtual time.
  void After(int64_t delay_ns, UniqueFunction<void()> event) { schedule.At(now_ns() + delay_ns, std::move(event)); }

  // Something has gone wrong between the two, or with one of them: errors are explained from now on.
  void Disturb(int one, int other);
  bool disturbed(int one, int other) const;

  const Plan plan;
  Journal journal;
  Meddler meddler;
  Ledger ledger;
  transport::LoopbackWorld world;
  transport::EventQueue schedule;
  std::vector<Record> records;
  std::vector<std::unique_ptr<Member>> members;
  uint64_t bytes_max = 0;  // of the largest message of this run, as its receiver counts them
  bool over = false;       // everything has been taken down: no Done may come any more
  int sinks = 0;           // of requests, alive
  int part_dones_due = 0;

 private:
  std::set<std::pair<int, int>> disturbed_;
};

}  // namespace fusewire::simulation
