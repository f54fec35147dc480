// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Which server a task belongs to: each that takes it writes an owner file with a higher epoch than all before, and the
// highest one has the task. docs/elastic.md says what is promised, ADR 35 why.
//
// Two that claim at the same moment: each writes a file that nobody else writes, then lists the folder, and has the
// task only if it sees no other file of its epoch or a later one. Of two that wrote the same epoch, the one that wrote
// last sees the other: so at most one has it. If both see each other, neither has it, and the higher holder goes on
// with the next epoch. All this needs is that a file that was renamed is in every listing that begins later.
//
// What remains: on a file system whose listings lag, two may have one epoch. Their files have different names, so that
// neither damages the other's, and the fence ends the lower holder once it sees the other. And between a check and what
// follows it, a server may be frozen: it can then complete one snapshot of its own epoch, which is older than any of
// its successor's, and remove one file that it had found to be superfluous. Home: one thread at a time. Owns: nothing
// but values. Fails: Claim, if the folder can't be written or belongs to another cluster; Check, once another server
// has the task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/snapshot/departure.h"
#include "fusewire/tf/snapshot/folder.h"

namespace fusewire::tf {

// What a server states about itself, and asks about others, when it takes a task.
struct Claim {
  uint64_t holder = 0;  // 0: a random one
  // Whether that server still serves the task; waits for the answer. Null: no.
  std::function<bool(const Owner& owner)> is_served;
  // A moment in which another claimant may go on. Null: a real one.
  std::function<void()> wait;
  // The way to a server that serves the task, to take the task over from it. Null: it is left there.
  std::function<std::unique_ptr<Predecessor>(const Owner& owner)> predecessor;
  int64_t pause_ns_max = kSecondNs;  // of steps
};

class Ownership {
 public:
  // The folder outlives it.
  Ownership(const SnapshotFolder& folder, const std::string& task, const std::string& cluster, Claim claim);

  enum class State { kUnclaimed, kOwner, kElsewhere };
  State state() const { return state_; }
  const Claim& claim() const { return claim_; }
  // Itself; the epoch is 0 until it is the owner.
  const Owner& own() const { return own_; }
  Tenure tenure() const { return {own_.epoch, own_.holder}; }
  // When it was last seen to be the owner.
  int64_t seen_ns() const { return seen_ns_; }
  // The server that has the task instead, as far as its file could be read.
  const Owner& other() const { return other_; }

  // Takes the task, unless another server serves it: then the state is kElsewhere. An error: it could not be claimed.
  TfStatus DoClaim();
  // Takes the task from an owner that has closed for this server. Fails if that one goes on, or another one has it.
  TfStatus Succeed(const Tenure& closed);
  // Takes it again, as an owner that has closed for another server. Fails if that one has it, or may have it.
  TfStatus Reclaim();
  // Fails once another server has the task; the state is kElsewhere from then on. A folder that can't be read changes
  // nothing.
  TfStatus Check();
  // Likewise, or takes the task, if it could not before.
  TfStatus Own();
  // Writes the owner file again, if the last check did not find it: somebody has emptied the folder.
  TfStatus WriteIfGone();
  // Writes it to the owner file.
  TfStatus SetAddress(const std::string& address);

 private:
  static constexpr int kClaimsMax = 100, kLooksMax = 10;
  TfStatus ClaimAlone(uint64_t epoch, bool gives_way);
  TfStatus AskOwner(const Tenure& tenure, const std::vector<FolderFile>& files);
  void Win(uint64_t epoch);
  // The highest of others, or none: epoch 0.
  Tenure HighestOther(const std::vector<FolderFile>& files) const;
  // What the file of this owner says, or only the numbers of its name.
  Owner Describe(const Tenure& tenure, const std::vector<FolderFile>& files) const;
  TfStatus Lose(const Tenure& to, const std::vector<FolderFile>& files);
  void DropFormer(std::vector<FolderFile>* files) const;
  bool HasLost(const Tenure& highest, const std::vector<FolderFile>& files);
  bool HasWon(const Tenure& other, const std::vector<FolderFile>& files) const;

  const SnapshotFolder& folder_;
  const Claim claim_;
  State state_ = State::kUnclaimed;
  bool has_file_ = true;
  uint64_t former_ = 0;  // holder that closed for this server; 0: none did
  int64_t seen_ns_ = 0;
  Owner own_, other_;
};

// "10.0.0.5:4321, epoch 9"
std::string Shown(const Owner& owner);

}  // namespace fusewire::tf
