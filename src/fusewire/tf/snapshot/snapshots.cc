// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/snapshots.h"

#include <utility>

#include <absl/strings/str_cat.h>

#include "fusewire/tf/state/devices.h"

namespace fusewire::tf {

Snapshots::Snapshots(Options options, const tensorflow::ServerDef& def)
    : options_(std::move(options)), task_(absl::StrCat(def.job_name(), ":", def.task_index())) {}

Snapshots::~Snapshots() = default;

TfStatus Snapshots::Open(Options options, const tensorflow::ServerDef& def, std::unique_ptr<Snapshots>* out) {
  std::unique_ptr<Snapshots> snapshots(new Snapshots(std::move(options), def));
  TF_RETURN_IF_ERROR(MakeDevices(def, Incarnations(), &snapshots->devices_));
  snapshots->state_ = snapshots->devices_->HostCPU()->attributes().incarnation();
  *out = std::move(snapshots);
  return TfStatus();
}

}  // namespace fusewire::tf
