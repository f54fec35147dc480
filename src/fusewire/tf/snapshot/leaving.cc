// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/leaving.h"

#include <utility>

#include <absl/strings/str_cat.h>

#include "fusewire/base/clock.h"

namespace fusewire::tf {

TfStatus Leaving::Run(bool* has_moved) {
  MoveWant want = MoveWant::kBegin;
  bool is_first = true;
  while (departure->Await(&want)) {
    if (!inventory->obstacle().empty())
      return absl::FailedPreconditionError(absl::StrCat("it holds ", inventory->obstacle(), ", which can't be copied"));
    TF_RETURN_IF_ERROR(ownership->Check());
    if (want == MoveWant::kClose) return GiveLast(has_moved);
    if (want == MoveWant::kBegin) {
      std::vector<std::string> pieces = hooks->parts();
      pieces.insert(pieces.begin(), EncodeManifest(describe()));
      TF_RETURN_IF_ERROR(departure->Say(MoveSaid::kBegun, std::move(pieces)));
    } else {
      StateWriter writer(departure);
      TF_RETURN_IF_ERROR(copy(&writer, is_first));
      TF_RETURN_IF_ERROR(departure->EndRound(writer.bytes()));
      is_first = false;
    }
  }
  return absl::DeadlineExceededError("the process that takes it is silent");
}

// Nothing is written any more. If anything fails, or no server comes, the task goes on here, with a higher epoch: the
// other server may have got all, and only the one that has the task in the folder serves it.
TfStatus Leaving::GiveLast(bool* has_moved) {
  TF_RETURN_IF_ERROR(hooks->close());
  departure->SetSilence(kSuccessorNs);
  Manifest manifest = describe();
  StateWriter writer(departure);
  std::string values;
  TfStatus given = copy(&writer, /*is_full=*/false);
  if (given.ok()) given = hooks->collect(&manifest.clients);
  if (given.ok()) given = hooks->values(&values);
  if (given.ok())
    given = departure->Say(MoveSaid::kClosed, {EncodeManifest(manifest), std::move(values)}, writer.bytes());
  if (!given.ok()) {
    hooks->open(ownership->own().epoch);
    return given;
  }
  const int64_t until_ns = AddNs(Clock::Real()->NowNs(), kSuccessorNs);
  const bool is_done = departure->AwaitDone(until_ns);
  while (!*has_moved) {
    // A server that says that it serves the task is believed, even if its file appears in the folder late.
    const TfStatus claimed = is_done ? ownership->Check() : ownership->Reclaim();
    *has_moved = ownership->state() == Ownership::State::kElsewhere;
    if (!is_done && ownership->state() == Ownership::State::kOwner) {
      hooks->open(ownership->own().epoch);
      return absl::DeadlineExceededError("the process that was to take it has not come");
    }
    // Neither serves until the folder says who has it.
    uint64_t suppressed = 0;
    if (!*has_moved && warnings_.Allow(Clock::Real()->NowNs(), &suppressed))
      FUSEWIRE_LOG(kWarn, "%s: it runs no steps, because it can't find out whether it has moved: %s",
                   ownership->own().task.c_str(), claimed.ToString().c_str());
    if (!*has_moved && !wait()) return absl::CancelledError("it ends");
  }
  return TfStatus();
}

}  // namespace fusewire::tf
