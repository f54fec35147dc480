// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Doorbell is how other processes, which share memory with things at this home, say "look at me". A reactor has one,
// for all of them: while it spins it reads one word, and while it is parked it sleeps where it sleeps for everything
// else, in epoll.
// The memory is two pages, each in a file of its own that travels to the peers:
//   rung    u64, written by all: bit b calls the handlers of bit b
//   asleep  u32, written by the reactor alone (peers cannot map it for writing): the reactor is parked and does not
//   poll `rung`
// and an eventfd, watched edge-triggered and never read: one system call less per wake-up, see docs/adr/0009.
// No wake-up is lost, because both sides write first and look afterwards, with a full fence in between (all four are
// seq_cst):
//   a peer       puts bytes into the memory; sets its bit in `rung`; looks at `asleep`: set? write to the eventfd
//   the reactor  sets `asleep`; looks at `rung`: set? stay awake; else sleep in epoll
// In any order of these, the peer sees `asleep` or the reactor sees the bit. An eventfd that was written before the
// reactor came to epoll is there when it comes. A system call is made only for a reactor that is parked.
// While the loop turns without a pause, it asks one of its handlers directly, the one that was rung for alone and
// repeatedly: it tells its peer not to ring. That ends in the same order as above: before the reactor sleeps, the
// handler tells its peer to resume ringing, and the loop checks it for input one last time.
// A lying peer can ring for nothing, or clear the bits of others. A sweep makes up for those: each time the reactor
// parks, it calls the handlers of one bit, in turn, and each of its timers makes it park again.
// Home: the reactor. Owns: the two files, their mappings, the eventfd. Fails: Make says why.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fusewire/base/list.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/home.h"

namespace fusewire::reactor {

constexpr size_t kDoorbellPageBytes = 4096;

struct RungPage {
  std::atomic<uint64_t> rung;
};
struct AsleepPage {
  std::atomic<uint32_t> asleep;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "words that processes share have no lock");

// The descriptors with which a peer rings a doorbell.
struct DoorbellFiles {
  int rung = -1, asleep = -1, event = -1;
};

class PeerDoorbell;
// A doorbell of another home, perhaps in another process, as it is mapped here.
class DoorbellTarget;

// An object that a doorbell calls.
class DoorbellHandler : public ListNode {
 public:
  virtual void OnRung() = 0;  // at home; may come though nobody rang
  // At home: something has come that OnRung has not seen.
  virtual bool HasNews() const { return false; }
  // At home. Tells the peer that it need not ring for as long as this is true.
  virtual void Watch(bool) {}

 protected:
  ~DoorbellHandler() = default;
};

class Doorbell final : private FdHandler {
 public:
  static constexpr uint32_t kBits = 64;

  static Result<std::unique_ptr<Doorbell>> Make(Home& home);
  ~Doorbell();

  // For a peer. The doorbell keeps the descriptors.
  const DoorbellFiles& files() const { return files_; }
  // At home. Opens a doorbell of process `peer_pid`, for something at this home. All PeerDoorbells of one doorbell of
  // one process share its mapping and its descriptor: a thousand connections need one. 0: the process is not known.
  Result<std::unique_ptr<PeerDoorbell>> OpenPeer(int peer_pid, const DoorbellFiles& files, uint32_t bit);

  // At home. Returns the bit to ring with; of those that are taken the one that the fewest share.
  uint32_t Hang(DoorbellHandler* handler);
  void Unhang(uint32_t bit, DoorbellHandler* handler);

  // At home. Calls those of this bit again soon: they left something for the next turn.
  void RingHere(uint32_t bit) { rung_page_->rung.fetch_or(uint64_t{1} << bit, std::memory_order_seq_cst); }

  // For the loop.
  bool rung() const {
    return rung_page_->rung.load(std::memory_order_seq_cst) != 0 ||
           (watched_one_ != nullptr && watched_one_->HasNews());
  }
  void SetAsleep(bool asleep) {
    if (asleep && watches_) StopWatching();
    asleep_page_->asleep.store(asleep ? 1 : 0, std::memory_order_seq_cst);
  }
  // The loop is going to ask again and again, until SetAsleep.
  void BeginWatching() {
    if (!watches_ && watched_one_ != nullptr) StartWatching();
  }
  // Calls the handlers whose bits are set, and the watched one if it has news. True if any was called.
  bool Answer() {
    bool any = rung_page_->rung.load(std::memory_order_relaxed) != 0 && AnswerAll();
    // Also when the peer has been told to ring again: it may not have known that when it wrote.
    return (watched_one_ != nullptr && AnswerWatched()) || any;
  }
  // For the loop, around the output of a turn: peers that are rung softly meanwhile are woken at its end, each once.
  void HoldWakes() { wakes_.are_held = true; }
  void SendWakes();
  // Calls the handlers of one bit, the next in turn, whether it is set or not.
  void Sweep();

 private:
  friend class PeerDoorbell;
  explicit Doorbell(Home& home);
  Status Open();
  void OnEvents(uint32_t) override { Answer(); }
  bool PollNow() override { return Answer(); }
  bool AnswerAll();
  bool AnswerWatched();
  void StartWatching();
  void StopWatching();
  void Choose(uint64_t rung);
  void AnswerBit(uint32_t bit);

  Home& home_;
  DoorbellFiles files_;
  RungPage* rung_page_ = nullptr;
  AsleepPage* asleep_page_ = nullptr;
  bool watched_ = false;
  std::array<List<DoorbellHandler>, kBits> handlers_;
  std::array<uint32_t, kBits> counts_ = {};
  // By process and by the number of its file. weak_ptr: the PeerDoorbells hold them; the last one unmaps it.
  std::map<std::pair<int, uint64_t>, std::weak_ptr<DoorbellTarget>> targets_;
  struct Wakes {
    bool are_held = false;
    // shared_ptr: the last PeerDoorbell may be destroyed before it is woken.
    std::vector<std::shared_ptr<DoorbellTarget>> due;
  };
  Wakes wakes_;
  uint32_t next_sweep_ = 0;
  uint64_t rung_before_ = 0;                // the bits of the last ring
  DoorbellHandler* watched_one_ = nullptr;  // or would be, if the loop did not pause
  uint32_t watched_bit_ = 0;
  bool watches_ = false;
};

// Rings another home's doorbell with one bit. One thread.
class PeerDoorbell {
 public:
  PeerDoorbell(const PeerDoorbell&) = delete;
  PeerDoorbell& operator=(const PeerDoorbell&) = delete;
  ~PeerDoorbell();
  // Takes what a peer sent for its doorbell: checks that it is what it should be, and maps it. The descriptors stay the
  // caller's.
  static Result<std::unique_ptr<PeerDoorbell>> Open(const DoorbellFiles& files, uint32_t bit);
  // Earlier writes to shared memory are visible to the thread that answers.
  void Ring();
  // Likewise; a peer that sleeps is woken once the output of this turn is written, together with what else is for it.
  void RingSoftly();
  uint64_t wakes() const { return wakes_; }

 private:
  friend class Doorbell;
  // shared_ptr: all of one doorbell share it, and any may be the last.
  PeerDoorbell(std::shared_ptr<DoorbellTarget> target, uint32_t bit);

  // shared_ptr: as above.
  const std::shared_ptr<DoorbellTarget> target_;
  const uint64_t bit_;
  uint64_t wakes_ = 0;
};

}  // namespace fusewire::reactor
