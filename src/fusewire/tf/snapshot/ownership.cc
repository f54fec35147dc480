// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/ownership.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>

#include "fusewire/base/random.h"

namespace fusewire::tf {
namespace {

// Longer than a claimant takes from one of its files to the next.
constexpr int64_t kMomentUs = 200 * 1000;

Claim Filled(Claim claim, tensorflow::Env* env) {
  if (claim.holder == 0) claim.holder = SystemRandom64() | 1;
  if (claim.is_served == nullptr) claim.is_served = [](const Owner&) { return false; };
  if (claim.wait == nullptr) claim.wait = [env] { env->SleepForMicroseconds(kMomentUs); };
  return claim;
}

}  // namespace

std::string Shown(const Owner& owner) {
  const std::string where = owner.address.empty() ? "a server whose data port is not known" : owner.address;
  return absl::StrCat(where, ", epoch ", owner.epoch);
}

Ownership::Ownership(const SnapshotFolder& folder, const std::string& task, const std::string& cluster, Claim claim)
    : folder_(folder), claim_(Filled(std::move(claim), folder.env())) {
  own_.task = task;
  own_.cluster = cluster;
  own_.holder = claim_.holder;
}

Tenure Ownership::HighestOther(const std::vector<FolderFile>& files) const {
  Tenure highest;
  for (const FolderFile& file : files) {
    if (file.kind != FolderFileKind::kUnfinished && file.tenure.holder != own_.holder)
      highest = std::max(highest, file.tenure);
  }
  return highest;
}

Owner Ownership::Describe(const Tenure& tenure, const std::vector<FolderFile>& files) const {
  Owner owner;
  for (const FolderFile& file : files) {
    const bool is_its = file.kind == FolderFileKind::kOwner && file.tenure == tenure;
    if (is_its && folder_.ReadOwner(file, &owner).ok() && owner.task == own_.task) return owner;
  }
  owner = Owner();
  owner.task = own_.task;
  owner.cluster = own_.cluster;
  owner.epoch = tenure.epoch;
  owner.holder = tenure.holder;
  return owner;
}

TfStatus Ownership::Lose(const Tenure& to, const std::vector<FolderFile>& files) {
  state_ = State::kElsewhere;
  other_ = Describe(to, files);
  return TfStatus();
}

TfStatus Ownership::DoClaim() {
  std::vector<FolderFile> files;
  TF_RETURN_IF_ERROR(folder_.Make());
  TF_RETURN_IF_ERROR(folder_.List(&files));
  Tenure highest = HighestOther(files);
  Owner claimed = own_;
  claimed.address.clear();  // one that has an address has won
  for (int i = 0; i < kClaimsMax; ++i) {
    TF_RETURN_IF_ERROR(AskOwner(highest, files));
    if (state_ == State::kElsewhere) return TfStatus();
    claimed.epoch = std::max(highest.epoch, claimed.epoch) + 1;
    TfStatus written = folder_.WriteOwner(claimed);
    // Read back: a server that wrote its file before ours is in this listing.
    TF_RETURN_IF_ERROR(folder_.List(&files));
    highest = HighestOther(files);
    if (highest.epoch > claimed.epoch) return Lose(highest, files);  // who may have removed our unfinished file
    TF_RETURN_IF_ERROR(written);
    if (highest.epoch < claimed.epoch) {
      Win(claimed.epoch);
      return TfStatus();
    }
    // Both wrote the same epoch, and we don't know whether the other has seen our file.
    if (claimed.holder > highest.holder) continue;
    claim_.wait();
    TF_RETURN_IF_ERROR(folder_.List(&files));
    highest = HighestOther(files);
    if (highest.epoch > claimed.epoch) return Lose(highest, files);
  }
  return absl::AbortedError("others claim it at the same time again and again");
}

TfStatus Ownership::Succeed(const Tenure& closed) {
  std::vector<FolderFile> files;
  TF_RETURN_IF_ERROR(folder_.List(&files));
  const Tenure highest = HighestOther(files);
  if (highest == closed) {
    TF_RETURN_IF_ERROR(ClaimAlone(closed.epoch + 1, /*gives_way=*/true));
    former_ = closed.holder;
    return TfStatus();
  }
  TF_RETURN_IF_ERROR(Lose(highest, files));
  return Check();
}

TfStatus Ownership::Reclaim() {
  state_ = State::kUnclaimed;
  return ClaimAlone(own_.epoch + 1, /*gives_way=*/false);
}

// Only an owner that has closed and the server for which it has may claim this epoch. Each writes its file and lists
// the folder: if neither sees the other's, one of them has not written it yet, and will see the first one's. The one
// that gives way removes its file and never serves; the other one waits a while for that, or until the first says by
// its address that it has won.
TfStatus Ownership::ClaimAlone(uint64_t epoch, bool gives_way) {
  Owner claimed = own_;
  claimed.address.clear();
  claimed.epoch = epoch;
  TF_RETURN_IF_ERROR(folder_.WriteOwner(claimed));
  for (int i = 0; i < kLooksMax; ++i) {
    std::vector<FolderFile> files;
    TF_RETURN_IF_ERROR(folder_.List(&files));
    const Tenure other = HighestOther(files);
    if (other.epoch < epoch) {
      Win(epoch);
      return Check();
    }
    if (gives_way || other.epoch > epoch || HasWon(other, files)) {
      if (gives_way) folder_.RemoveOwner({epoch, own_.holder});
      TF_RETURN_IF_ERROR(Lose(other, files));
      return Check();
    }
    claim_.wait();
  }
  // The other one has died, or stands still. If it wakes, it writes its address and then looks; so we write the next
  // epoch and then look: at least one of us sees the other's file, and does not serve.
  ++claimed.epoch;
  TF_RETURN_IF_ERROR(folder_.WriteOwner(claimed));
  std::vector<FolderFile> files;
  TF_RETURN_IF_ERROR(folder_.List(&files));
  const Tenure other = HighestOther(files);
  if (other.epoch < epoch || (other.epoch == epoch && !HasWon(other, files))) {
    Win(claimed.epoch);
    return Check();
  }
  folder_.RemoveOwner({claimed.epoch, own_.holder});
  TF_RETURN_IF_ERROR(Lose(other, files));
  return Check();
}

// Whether it is in use where it says.
TfStatus Ownership::AskOwner(const Tenure& tenure, const std::vector<FolderFile>& files) {
  const Owner owner = Describe(tenure, files);
  if (owner.address.empty() || !claim_.is_served(owner)) return TfStatus();
  if (owner.cluster == own_.cluster) return Lose(tenure, files);
  return absl::FailedPreconditionError(absl::StrCat("it belongs to the cluster \"", owner.cluster, "\", whose ",
                                                    own_.task, " is served at ", owner.address, ", and this is \"",
                                                    own_.cluster, "\"; next: give each cluster its own folder"));
}

// Afterwards the state may be kElsewhere again.
void Ownership::Win(uint64_t epoch) {
  own_.epoch = epoch;
  seen_ns_ = Clock::Real()->NowNs();
  state_ = State::kOwner;
  const Tenure own = tenure();
  if (!own_.address.empty()) folder_.WriteOwner(own_).IgnoreError();
  folder_.Drop(
      own, [&own](const FolderFile& file) { return file.kind == FolderFileKind::kOwner && file.tenure != own; },
      [this] { return Check().ok(); });
}

TfStatus Ownership::Check() {
  const int64_t now_ns = Clock::Real()->NowNs();
  std::vector<FolderFile> files;
  if (state_ == State::kOwner && folder_.List(&files).ok()) {
    DropFormer(&files);
    const Tenure highest = HighestOther(files);
    if (HasLost(highest, files)) {
      TF_RETURN_IF_ERROR(Lose(highest, files));
    } else {
      seen_ns_ = now_ns;
    }
  }
  if (state_ == State::kOwner) return TfStatus();
  if (state_ == State::kUnclaimed) return absl::FailedPreconditionError("it could not claim the task");
  return absl::FailedPreconditionError(absl::StrCat("another server has ", own_.task, " now: ", Shown(other_)));
}

// An owner that closed for this server and gave up waiting claims the next epoch. This server's address was in the
// folder by then, so that owner finds it and gives way: its claim does not count.
void Ownership::DropFormer(std::vector<FolderFile>* files) const {
  const auto is_dropped = [this, files](const FolderFile& file) {
    return file.kind == FolderFileKind::kOwner && file.tenure.holder == former_ && file.tenure.epoch > own_.epoch &&
           !HasWon(file.tenure, *files);
  };
  const auto found = std::find_if(files->begin(), files->end(), is_dropped);
  if (found == files->end()) return;
  folder_.RemoveOwner(found->tenure);  // in case that server has died
  files->erase(found);
}

bool Ownership::HasLost(const Tenure& highest, const std::vector<FolderFile>& files) {
  const Tenure own = tenure();
  has_file_ = false;
  bool has_other = false;
  for (const FolderFile& file : files) {
    if (file.kind != FolderFileKind::kOwner) continue;
    has_file_ = has_file_ || file.tenure == own;
    has_other = has_other || file.tenure.holder != own.holder;
  }
  // Without its own file: somebody has emptied the folder, and another server has begun anew there.
  if (highest.epoch > own.epoch || (!has_file_ && has_other)) return true;
  return own < highest && HasWon(highest, files);
}

TfStatus Ownership::Own() {
  if (state_ == State::kUnclaimed) TF_RETURN_IF_ERROR(DoClaim());
  return Check();
}

// Of the same epoch. One that only tried to claim it has neither an address nor other files.
bool Ownership::HasWon(const Tenure& other, const std::vector<FolderFile>& files) const {
  const bool has_written = std::any_of(files.begin(), files.end(), [&other](const FolderFile& file) {
    const bool is_snapshot = file.kind == FolderFileKind::kState || file.kind == FolderFileKind::kManifest;
    return is_snapshot && file.tenure == other;
  });
  return has_written || !Describe(other, files).address.empty();
}

TfStatus Ownership::WriteIfGone() { return has_file_ ? TfStatus() : folder_.WriteOwner(own_); }

TfStatus Ownership::SetAddress(const std::string& address) {
  own_.address = address;
  return state_ == State::kOwner ? folder_.WriteOwner(own_) : TfStatus();
}

}  // namespace fusewire::tf
