// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The fast path of a group whose ranks are all on one host: operations without a key go through an arena, one after the
// other, on the thread that waits for them or on the lane's own thread. Ranks agree on an arena before their first such
// operation. If a rank can't share memory, or after the arena breaks, operations go over messages, in the same turns.
// Home: any thread but a home where it may wait, see each function. Owns: the arena, and operations that wait for their
// turn. Fails: each operation on its own. A rank whose operation fails in the arena closes the arena and sends the
// number of the turn to the others, which fail the same turn, wherever they run it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/mutex.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena.h"
#include "fusewire/collective/group/arena_session.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/options.h"
#include "fusewire/collective/group/recording.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/collective/group/turn_queue.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/completion.h"

namespace fusewire::transport {
class Gathering;
}

namespace fusewire::collective {

// The group behind a lane.
class LaneHandler {
 public:
  // Any thread. Sends it home, where it ends, or begins to go over messages.
  virtual void SendHome(std::unique_ptr<GroupOperation> operation) = 0;
  // Any thread but a home. Runs it over messages; its own deadline ends it.
  virtual Status RunOverMessages(std::unique_ptr<GroupOperation> operation) = 0;
  // Any thread. The operation of that turn has failed here, so it fails at every rank.
  virtual void OnTurnFailed(uint32_t epoch, uint64_t turn, const Status& why) = 0;

 protected:
  ~LaneHandler() = default;
};

class ArenaLane {
 public:
  // All outlive it.
  ArenaLane(LaneHandler* group, p2p::Endpoint& endpoint, const GroupOptions& options, const GroupState& state,
            GroupMonitor* monitor);
  // Call Stop first.
  ~ArenaLane();
  ArenaLane(const ArenaLane&) = delete;
  ArenaLane& operator=(const ArenaLane&) = delete;

  // Any thread but a home. True: it has ended with operation->status. False: run it over messages; it has its turn.
  bool Run(GroupOperation* operation);
  // Any thread. The operation is sent home, where it ends, or begins to go over messages.
  void Start(std::unique_ptr<GroupOperation> operation);
  // Any thread. Whether the operation of this turn goes over messages.
  bool OverMessages(uint64_t turn);
  // Any thread. Whether operations currently go through the arena.
  bool open();
  // Any thread. False: the lane does not have the operation.
  bool Cancel(uint64_t number, const Status& why);

  // At home. The operation of this turn has failed at another rank. True: the lane has run this turn, and the failure
  // has no effect here.
  bool OnFailed(uint64_t turn, const Status& why);
  // At home. The operation under way fails, and later ones go over messages.
  void Shut(const Status& why);
  // At home. A new epoch: the remaining ranks, of these names, agree on an arena again.
  void Reopen(uint32_t epoch, std::vector<std::string> names);
  // Any thread but a home, after Shut. Waits until the lane's operations have ended, or gone over messages.
  void Stop();

 private:
  // What is known of the turn that is being served.
  struct Service {
    uint64_t turn;
    uint64_t number;
    std::optional<Status> reason;  // why the arena was closed meanwhile
    bool is_given_up = false;      // by its caller
  };

  // False: the operation goes over messages.
  bool GiveTurn(GroupOperation* operation) FUSEWIRE_REQUIRES(mutex_);
  // For the lane's thread.
  TurnJob* Enqueue(TurnJob job) FUSEWIRE_REQUIRES(mutex_);
  void AwaitJob(TurnJob* job, int64_t leave_ns, reactor::Completion& end, reactor::CancelToken* cancel)
      FUSEWIRE_EXCLUDES(mutex_);
  void LeaveJob(TurnJob* job, const Status& why) FUSEWIRE_REQUIRES(mutex_);
  int64_t DeadlineOf(const GroupOperation& operation) const;
  void Work();
  // Releases the lock while it serves.
  void ServeJob(TurnJob* job) FUSEWIRE_REQUIRES(mutex_);
  // True: the job has ended here.
  bool Serve(const TurnJob& job, Arena* arena, Agreement* agreement) FUSEWIRE_EXCLUDES(mutex_);
  void FailTurn(const TurnJob& job, const Arena& arena, Status why) FUSEWIRE_EXCLUDES(mutex_);
  void DeclineTurn(const TurnJob& job, Arena* arena, const Status& why) FUSEWIRE_EXCLUDES(mutex_);
  bool HasReason() FUSEWIRE_EXCLUDES(mutex_);
  void GoOverMessages(const TurnJob& job, const Arena& arena, const Status& why, uint64_t from_turn)
      FUSEWIRE_EXCLUDES(mutex_);
  int ranks() const { return state_.ranks.load(std::memory_order_acquire); }
  int rank() const { return state_.rank.load(std::memory_order_acquire); }
  // Null: the ranks share no arena, and the log says why.
  std::unique_ptr<Arena> SetUp(uint32_t epoch, int64_t deadline_ns, Agreement* agreement) FUSEWIRE_EXCLUDES(mutex_);
  Result<std::unique_ptr<Arena>> MeetInArena(const std::string& name, transport::Gathering* gathering, int memory,
                                             int64_t deadline_ns, reactor::CancelToken* cancel);
  Status RunOverMessages(uint32_t epoch, uint64_t turn, Bytes told, int64_t deadline_ns, reactor::CancelToken* cancel)
      FUSEWIRE_EXCLUDES(mutex_);
  Status Execute(Arena* arena, GroupOperation* operation, int64_t deadline_ns) FUSEWIRE_EXCLUDES(mutex_);

  LaneHandler* const group_;
  p2p::Endpoint& endpoint_;
  const GroupOptions& options_;
  const GroupState& state_;
  ArenaRecorder recorder_;  // of the thread that serves
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> names_ FUSEWIRE_GUARDED_BY(mutex_);  // of the ranks
  ArenaSession session_ FUSEWIRE_GUARDED_BY(mutex_);
  TurnQueue queue_ FUSEWIRE_GUARDED_BY(mutex_);
  std::optional<Service> service_ FUSEWIRE_GUARDED_BY(mutex_);
  std::thread thread_ FUSEWIRE_GUARDED_BY(mutex_);
  bool stopping_ FUSEWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace fusewire::collective
