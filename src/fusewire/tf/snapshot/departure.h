// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The old side of a move, between the calls of the server that takes the task and the thread that copies it: the taker
// asks for one piece at a time, so the copier never runs ahead of it.
// Home: any thread; what the copier calls, one. Owns: one piece of frames. Fails: with the reason why the taker can't
// have more; a taker that is silent ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/moves.h"
#include "fusewire/tf/snapshot/state_file.h"

namespace fusewire::tf {

class Departure final : public StateSink {
 public:
  explicit Departure(uint64_t taker) : taker_(taker) {}
  uint64_t taker() const { return taker_; }

  // Any thread. `answer` is called once, on any thread, when the copier has the answer.
  using Answer = std::function<void(const TfStatus&, const HandedOver&, std::vector<std::string> pieces)>;
  void Ask(MoveWant want, Answer answer);
  // The taker gets no more.
  bool has_ended();

  // ---- the copier ----
  // The longest that the taker may need between two of its calls from now on.
  void SetSilence(int64_t ns) { silence_ns_ = ns; }
  // What the taker wants next. False: it has not asked in time.
  bool Await(MoveWant* want);
  TfStatus Append(ConstBytes frame_head, ConstBytes content) override;
  // A round ends; it has sent this many bytes.
  TfStatus EndRound(uint64_t bytes);
  // Instead of EndRound, after the last: the pieces, and what is left of the round.
  TfStatus Say(MoveSaid said, std::vector<std::string> pieces, uint64_t bytes = 0);
  // True: the taker has said that it serves the task.
  bool AwaitDone(int64_t deadline_ns);
  // The taker gets no more.
  void Fail(const TfStatus& why);

 private:
  TfStatus Give(const HandedOver& said, std::vector<std::string> pieces);

  const uint64_t taker_;
  std::string frames_;                   // the copier's
  int64_t silence_ns_ = 10 * kSecondNs;  // likewise
  Mutex mutex_;
  CondVar changed_;
  Answer answer_ FUSEWIRE_GUARDED_BY(mutex_);  // null: nobody has asked
  MoveWant want_ FUSEWIRE_GUARDED_BY(mutex_) = MoveWant::kBegin;
  bool is_new_ FUSEWIRE_GUARDED_BY(mutex_) = false;  // the copier has not seen what is wanted
  bool is_done_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  TfStatus why_ FUSEWIRE_GUARDED_BY(mutex_);
};
// shared_ptr: calls of the taker may come after its end.
using DeparturePtr = std::shared_ptr<Departure>;

// The one departure of a task, at most.
// Home: any thread. Fails: in the answer.
class Departures {
 public:
  // Before the first call. `wake`: the copier has work.
  void Open(std::function<void()> wake);
  // Ends the departure under way, and begins no other one.
  void Close();
  // A call of the server that takes the task: begins a move, or continues it.
  void OnHandOver(const HandOver& asked, Departure::Answer answer);
  // The copier's: null if there is none.
  DeparturePtr current();
  void End(const DeparturePtr& departure, const TfStatus& why);

 private:
  Mutex mutex_;
  std::function<void()> wake_ FUSEWIRE_GUARDED_BY(mutex_);  // null: it does not serve
  DeparturePtr current_ FUSEWIRE_GUARDED_BY(mutex_);
};

// The old server, as the one that takes the task sees it.
class Predecessor {
 public:
  virtual ~Predecessor() = default;
  // A thread that may wait.
  virtual TfStatus Ask(MoveWant want, HandedOver* answer, std::vector<std::string>* pieces) = 0;
};

}  // namespace fusewire::tf
