// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The fast path of a group whose ranks are all on one host: operations without a key go through an arena, one after the
// other, on the thread that waits for them or on the lane's own thread. Ranks agree on an arena before their first such
// operation. If a rank can't share memory, or after the arena breaks, operations go over messages, in the same turns.
// Home: any thread but a home where it may wait, see each function. Owns: the arena, and operations that wait for their
// turn. Fails: each operation on its own. A rank whose operation fails in the arena closes the arena and sends the
// number of the turn to the others, which fail the same turn, wherever they run it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "fusewire/base/bytes.h"
#include "fusewire/base/mutex.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/arena/arena.h"
#include "fusewire/collective/group/lane_record.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/completion.h"

namespace fusewire::collective {

class GroupCore;

class ArenaLane {
 public:
  ArenaLane(GroupCore* core, GroupMonitor* shown);
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
  // At home. A new epoch: the remaining ranks agree on an arena again.
  void Reopen(uint32_t epoch);
  // Any thread but a home, after Shut. Waits until the lane's operations have ended, or gone over messages.
  void Stop();

 private:
  enum class Way { kUntried, kArena, kMessages };
  struct Job;
  // The two waits while ranks agree on an arena.
  struct SettingUp {
    reactor::CancelToken messages, gathering;
  };

  static constexpr uint64_t kNever = ~uint64_t{0};
  // False: the operation goes over messages.
  bool GiveTurn(GroupOperation* operation) FUSEWIRE_REQUIRES(mutex_);
  // For the lane's thread.
  Job* Enqueue(Job job) FUSEWIRE_REQUIRES(mutex_);
  void AwaitJob(Job* job, int64_t leave_ns, reactor::Completion& end, reactor::CancelToken* cancel)
      FUSEWIRE_EXCLUDES(mutex_);
  void LeaveJob(Job* job, const Status& why) FUSEWIRE_REQUIRES(mutex_);
  void Forget(const Job* job) FUSEWIRE_REQUIRES(mutex_);
  int64_t DeadlineOf(const GroupOperation& operation) const;
  void Work();
  Arena* OpenArena(uint32_t epoch) FUSEWIRE_REQUIRES(mutex_);
  // Releases the lock while it serves.
  void ServeJob(Job* job) FUSEWIRE_REQUIRES(mutex_);
  // As Run.
  bool Serve(const Job& job, Arena* arena) FUSEWIRE_EXCLUDES(mutex_);
  void GoOverMessages(const Arena& arena, const Status& why, uint64_t from_turn) FUSEWIRE_EXCLUDES(mutex_);
  void FailTurn(const Job& job, const Arena& arena, Status why) FUSEWIRE_EXCLUDES(mutex_);
  void SendFailed(const Job& job, const Status& why);
  void SendHome(std::unique_ptr<GroupOperation> operation) FUSEWIRE_EXCLUDES(mutex_);
  void SetUp(int64_t deadline_ns) FUSEWIRE_EXCLUDES(mutex_);
  void CallOffGathering() FUSEWIRE_REQUIRES(mutex_);
  void Tell(const Status& why) const;
  Status RunOverMessages(uint64_t turn, Bytes told, int64_t deadline_ns, reactor::CancelToken* cancel)
      FUSEWIRE_EXCLUDES(mutex_);
  Status Execute(Arena* arena, GroupOperation* operation, int64_t deadline_ns) FUSEWIRE_EXCLUDES(mutex_);

  GroupCore* const core_;
  LaneRecord record_;  // of the thread that serves
  Mutex mutex_;
  CondVar changed_;
  Way way_ FUSEWIRE_GUARDED_BY(mutex_) = Way::kUntried;
  uint32_t epoch_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  uint64_t next_turn_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  uint64_t served_turns_ FUSEWIRE_GUARDED_BY(mutex_) = 0;        // turns below it that stayed here have ended
  uint64_t messages_from_ FUSEWIRE_GUARDED_BY(mutex_) = kNever;  // turns from it on go over messages
  bool set_up_failed_ FUSEWIRE_GUARDED_BY(mutex_) = false;       // at another rank
  bool busy_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  uint64_t busy_turn_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  uint64_t busy_number_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Arena> arena_ FUSEWIRE_GUARDED_BY(mutex_);
  // The arena of the previous epoch, until a call in it has returned.
  std::unique_ptr<Arena> retired_ FUSEWIRE_GUARDED_BY(mutex_);
  // Why the arena was closed during the operation under way.
  std::optional<Status> reason_ FUSEWIRE_GUARDED_BY(mutex_);
  bool is_given_up_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // by its caller
  // shared_ptr: it is cancelled without the lock, while its creator may drop it.
  std::shared_ptr<SettingUp> setting_up_ FUSEWIRE_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Job>> jobs_ FUSEWIRE_GUARDED_BY(mutex_);
  std::thread thread_ FUSEWIRE_GUARDED_BY(mutex_);
  bool stopping_ FUSEWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace fusewire::collective
