// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The short way of a group whose ranks all stand on one host: its operations without a key go through an arena, one
// after the other, on the thread that waits for them, or on a thread of the lane's own. Ranks agree on it before their
// first such operation; where one of them cannot share memory, and after whatever breaks the arena, all goes over
// messages, in the same turns.
// Home: any thread but a home where it may wait, as each function says. Owns: the arena, and operations that wait for
// their turn. Fails: each operation on its own; a rank whose operation fails in the arena closes it and tells the
// others which turn that was, and so they fail that turn too, wherever they run it.
#ifndef FUSEWIRE_COLLECTIVE_GROUP_ARENA_LANE_H_
#define FUSEWIRE_COLLECTIVE_GROUP_ARENA_LANE_H_

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
#include "fusewire/reactor/cancel.h"
#include "fusewire/reactor/completion.h"

namespace fusewire {
namespace collective {

class GroupCore;
struct GroupOperation;

class ArenaLane {
 public:
  explicit ArenaLane(GroupCore* core);
  // After Stop.
  ~ArenaLane();
  ArenaLane(const ArenaLane&) = delete;
  ArenaLane& operator=(const ArenaLane&) = delete;

  // Any thread but a home. True: it has ended, as operation->status says. False: it is to go over messages, and knows
  // its turn.
  bool Run(GroupOperation* operation);
  // Any thread. It ends at home, or begins there, to go over messages.
  void Start(std::unique_ptr<GroupOperation> operation);
  // Any thread. Whether this turn is for messages.
  bool OverMessages(uint64_t turn);
  // Any thread. Whether operations go through the arena just now.
  bool open();
  // Any thread. False: it is not here.
  bool Cancel(uint64_t number, const Status& why);

  // At home. Another rank says that its operation of this turn has failed. False: that turn is not, or not yet, ours.
  bool OnFailed(uint64_t turn, const Status& why);
  // At home. Whatever is under way fails, and what comes goes over messages.
  void Shut(const Status& why);
  // At home. A new epoch: the ranks that are left agree anew.
  void Reopen(uint32_t epoch);
  // Any thread but a home, after Shut. Waits until those that are here have ended, or gone over messages.
  void Stop();

 private:
  enum class Way { kUntried, kArena, kMessages };
  struct Job;
  // What ranks wait for while they agree on an arena.
  struct SettingUp {
    reactor::CancelToken messages, gathering;
  };

  static constexpr uint64_t kNever = ~uint64_t{0};
  // Before the first operation: which ranks can share memory, and where to meet; then whether all have met.
  static constexpr uint64_t kSetUpTurns = 2;
  // False: over messages.
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
  // Lets go of the lock while it serves.
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
  Mutex mutex_;
  CondVar changed_;
  Way way_ FUSEWIRE_GUARDED_BY(mutex_) = Way::kUntried;
  uint32_t epoch_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  uint64_t next_turn_ FUSEWIRE_GUARDED_BY(mutex_) = 0;     // to be given
  uint64_t served_turns_ FUSEWIRE_GUARDED_BY(mutex_) = 0;  // all below have ended, unless they went over messages,
  uint64_t messages_from_ FUSEWIRE_GUARDED_BY(mutex_) = kNever;  // as all from here on did
  bool set_up_failed_ FUSEWIRE_GUARDED_BY(mutex_) = false;       // at another rank
  bool busy_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  uint64_t busy_turn_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  uint64_t busy_number_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Arena> arena_ FUSEWIRE_GUARDED_BY(mutex_);
  // Of the epoch before, while a call in it has not returned.
  std::unique_ptr<Arena> retired_ FUSEWIRE_GUARDED_BY(mutex_);
  // Why the arena was closed under the operation that is under way.
  std::optional<Status> reason_ FUSEWIRE_GUARDED_BY(mutex_);
  bool is_given_up_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // by its caller
  // shared_ptr: it is cancelled without the lock, and may be over meanwhile.
  std::shared_ptr<SettingUp> setting_up_ FUSEWIRE_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Job>> jobs_ FUSEWIRE_GUARDED_BY(mutex_);
  std::thread thread_ FUSEWIRE_GUARDED_BY(mutex_);
  bool stopping_ FUSEWIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_GROUP_ARENA_LANE_H_
