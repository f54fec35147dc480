// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/arrival.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "fusewire/base/clock.h"

namespace fusewire::tf {
namespace {

constexpr int kRoundsMax = 16;
// A rest that is smaller than this is not worth another round.
constexpr uint64_t kLittleBytes = 1 << 20;
// If a round is not smaller than this share of the one before, later rounds will not be either.
constexpr double kShrinks = 0.7;

TfStatus RestoreOne(tensorflow::DeviceMgr* devices, const Holding& holding, const HeldValue& value) {
  tensorflow::Device* device = nullptr;
  TF_RETURN_IF_ERROR(devices->LookupDevice(holding.device, &device));
  const TfStatus restored = RestoreHolding(device, holding, value.tensors, value.changes);
  return restored.ok() ? restored : TfStatus(restored.code(), absl::StrCat(holding.name, ": ", restored.message()));
}

double Seconds(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kSecondNs); }

}  // namespace

TfStatus Arrival::Begin(const std::string& task, const std::string& cluster) {
  HandedOver answer;
  std::vector<std::string> pieces;
  TF_RETURN_IF_ERROR(from_->Ask(MoveWant::kBegin, &answer, &pieces));
  if (answer.said != MoveSaid::kBegun || pieces.size() < 2) return absl::DataLossError("it does not say what it holds");
  const Status read = DecodeManifest(pieces[0], &begun_);
  if (!read.ok()) return absl::DataLossError(read.cause());
  if (begun_.task != task || begun_.cluster != cluster) {
    return absl::FailedPreconditionError(absl::StrCat("it is ", begun_.task, " of the cluster \"", begun_.cluster,
                                                      "\", and this is ", task, " of \"", cluster, "\""));
  }
  manifest_ = begun_;
  parts_.assign(std::make_move_iterator(pieces.begin() + 1), std::make_move_iterator(pieces.end() - 1));
  const int64_t begun_ns = Clock::Real()->NowNs();
  TF_RETURN_IF_ERROR(Round(MoveWant::kRound, &first_bytes_));
  last_bytes_ = first_bytes_;
  first_ns_ = std::max<int64_t>(1, Clock::Real()->NowNs() - begun_ns);
  return TfStatus();
}

TfStatus Arrival::Round(MoveWant want, uint64_t* bytes) {
  StateReader reader(UINT64_MAX, &state_);
  *bytes = 0;
  for (;;) {
    HandedOver answer;
    std::vector<std::string> pieces;
    TF_RETURN_IF_ERROR(from_->Ask(want, &answer, &pieces));
    if (answer.said == MoveSaid::kBegun || pieces.empty()) return absl::DataLossError("it gives no frames");
    *bytes += pieces.back().size();
    bytes_ += pieces.back().size();
    TF_RETURN_IF_ERROR(reader.ReadAll(pieces.back()));
    const bool is_last = answer.said == MoveSaid::kClosed;
    if (answer.said == MoveSaid::kFrames) {
      want = MoveWant::kNext;
      continue;
    }
    if (reader.is_open()) return absl::DataLossError("its round ends within a variable");
    changed_.merge(reader.TakeChanged());
    if (!is_last) return TfStatus();
    if (pieces.size() != 3) return absl::DataLossError("it does not say what belongs to steps under way");
    const Status read = DecodeManifest(pieces[0], &manifest_);
    if (!read.ok()) return absl::DataLossError(read.cause());
    values_ = std::move(pieces[1]);
    return TfStatus();
  }
}

TfStatus Arrival::Follow() {
  const double bytes_per_s = static_cast<double>(std::max<uint64_t>(first_bytes_, 1)) / Seconds(first_ns_);
  for (int i = 0; i < kRoundsMax; ++i) {
    const uint64_t before = last_bytes_;
    TF_RETURN_IF_ERROR(Round(MoveWant::kRound, &last_bytes_));
    const bool shrinks = static_cast<double>(last_bytes_) < kShrinks * static_cast<double>(before);
    if (last_bytes_ <= kLittleBytes || (!shrinks && i > 0)) break;
  }
  const double pause_s = static_cast<double>(last_bytes_) / bytes_per_s;
  if (last_bytes_ <= kLittleBytes || pause_s <= Seconds(pause_ns_max_)) return TfStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("its steps write %.1f MiB while %.1f MiB are copied, so they would stand still for %.2f s, and "
                      "at most %.2f s are "
                      "allowed; next: allow more (--max-pause), or move it when it has less to do",
                      static_cast<double>(last_bytes_) / (1 << 20), static_cast<double>(last_bytes_) / (1 << 20),
                      pause_s, Seconds(pause_ns_max_)));
}

TfStatus Arrival::Restore(tensorflow::DeviceMgr* devices, Inventory* inventory) {
  std::set<Holding> tables;
  for (const Holding& holding : changed_) {
    const auto found = state_.find(holding);
    if (found == state_.end()) continue;
    inventory->Add(found->first);
    const bool is_table = holding.kind == HoldingKind::kTable;
    if (is_table && !HasKeys(found->first)) {
      tables.insert(holding);
      continue;
    }
    TF_RETURN_IF_ERROR(RestoreOne(devices, found->first, found->second));
    if (is_table) found->second = HeldValue();  // it is there; later rounds bring only changes
  }
  changed_ = std::move(tables);
  return TfStatus();
}

TfStatus Arrival::Close(tensorflow::DeviceMgr* devices, Inventory* inventory) {
  // What was written while this server was made ready would lengthen the pause.
  TF_RETURN_IF_ERROR(Follow());
  closed_ns_ = Clock::Real()->NowNs();
  uint64_t bytes = 0;
  TF_RETURN_IF_ERROR(Round(MoveWant::kClose, &bytes));
  TF_RETURN_IF_ERROR(Restore(devices, inventory));
  for (const Holding& table : changed_) TF_RETURN_IF_ERROR(RestoreOne(devices, table, state_.at(table)));
  state_.clear();
  return TfStatus();
}

Arrival::~Arrival() {
  if (!is_done_) Say(MoveWant::kStop);
}

std::string Arrival::SayDone() {
  is_done_ = true;
  const double paused_s = Seconds(Clock::Real()->NowNs() - closed_ns_);
  Say(MoveWant::kDone);
  return absl::StrFormat("%.1f MiB came over, and steps stood still for %.0f ms",
                         static_cast<double>(bytes_) / (1 << 20), 1000 * paused_s);
}

void Arrival::Say(MoveWant want) {
  HandedOver answer;
  std::vector<std::string> pieces;
  from_->Ask(want, &answer, &pieces).IgnoreError();
}

}  // namespace fusewire::tf
