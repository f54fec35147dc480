// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The snapshots of one task: its devices, with what the newest snapshot says they hold, and a thread that writes the
// next ones while steps run. docs/elastic.md says what is promised.
// Home: any thread. Owns: the devices, and the thread. Fails: Open, only if TensorFlow can't make devices; a snapshot
// that can't be read or written is logged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

class Snapshots {
 public:
  struct Options {
    std::string folder;  // of all tasks, in one of TensorFlow's file systems
    int64_t every_ns = 0;
    std::string cluster;  // FUSEWIRE_CLUSTER: another cluster's snapshot is not taken
  };
  // Makes the task's devices, and restores what the newest snapshot has.
  static TfStatus Open(Options options, const tensorflow::ServerDef& def, std::unique_ptr<Snapshots>* out);
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;

  tensorflow::DeviceMgr* devices() const { return devices_.get(); }
  // Which state this is: a task that comes back with the same number goes on where its snapshot was.
  uint64_t state() const { return state_; }

 private:
  Snapshots(Options options, const tensorflow::ServerDef& def);

  const Options options_;
  const std::string task_;  // "ps:3"
  std::unique_ptr<tensorflow::DeviceMgr> devices_;
  uint64_t state_ = 0;
};

}  // namespace fusewire::tf
