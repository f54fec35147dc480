// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The snapshots of one task: its devices, with what the newest snapshot says they hold, and a thread that writes the
// next ones while steps run: now and then all of it, otherwise what was written since. docs/elastic.md says what is
// promised. Only the server that has the task writes (snapshot/ownership.h).
// Home: any thread. Owns: the devices, and the thread. Fails: Open, only if TensorFlow can't make devices; a snapshot
// that can't be read or written is logged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/framework/graph.pb.h>
#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include "fusewire/base/log.h"
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"
#include "fusewire/tf/snapshot/arrival.h"
#include "fusewire/tf/snapshot/departure.h"
#include "fusewire/tf/snapshot/folder.h"
#include "fusewire/tf/snapshot/ownership.h"
#include "fusewire/tf/snapshot/state_file.h"
#include "fusewire/tf/state/inventory.h"

namespace fusewire::tf {

class Snapshots {
 public:
  struct Options {
    std::string folder;    // of all tasks, in one of TensorFlow's file systems
    int64_t every_ns = 0;  // 0: when Write is called; for tests
    std::string cluster;   // FUSEWIRE_CLUSTER: another cluster's snapshot is not taken
  };
  // Takes the task, makes its devices, and restores what the newest snapshot has. Or, if another server serves the
  // task: neither, and owner() says who; with Claim::predecessor, it reads from that one what it holds, and TakeOver
  // takes the task.
  static TfStatus Open(Options options, const tensorflow::ServerDef& def, std::unique_ptr<Snapshots>* out,
                       Claim claim = Claim());
  ~Snapshots();
  Snapshots(const Snapshots&) = delete;

  // When it was opened.
  bool is_elsewhere() const { return devices_ == nullptr; }
  // Null: the task does not come from another server, or has come.
  std::unique_ptr<Arrival>& arrival() { return arrival_; }
  // The old server closes, and this one has the task, at that address. *values: of steps under way. Fails: the old
  // server goes on.
  TfStatus TakeOver(const std::string& address, std::string* values);
  // Before Start. Who has the task. Epoch 0: it could not be claimed, and no snapshot is written either.
  const Owner& owner() const;
  // Before Start. The data port is open there.
  void SetAddress(const std::string& address);

  tensorflow::DeviceMgr* devices() const { return devices_.get(); }
  // Of the restored snapshot.
  const std::vector<KeptClient>& clients() const { return clients_; }

  // Any thread. The task will run this graph: its variables and tables are in the next snapshot. `is_marked`: each run
  // marks in the inventory what it has written.
  void Learn(const tensorflow::GraphDef& graph, bool is_marked);
  Inventory& inventory() { return inventory_; }
  // Any thread. It holds what can't be kept: its snapshots end.
  void GiveUp(const std::string& obstacle);

  // What the server of a task does for its snapshots.
  struct Hooks {
    // Called after the last row was copied: returns once all runs of parts that had begun have ended, with those whose
    // clients may not have their answers. Fails if one does not end in time.
    std::function<TfStatus(std::vector<KeptClient>* clients)> collect;
    // Another server has taken the task, and nothing in the folder is changed any more. `has_moved`: it has been given
    // all that was here.
    std::function<void(const Owner& successor, bool has_moved)> yield;
    // For a task that moves. parts: its parts, each behind its fingerprint. close: returns once no run is under way,
    // and none begins. values: those of steps. open: it did not move, and this server has it with that epoch.
    std::function<std::vector<std::string>()> parts;
    std::function<TfStatus()> close;
    std::function<TfStatus(std::string* values)> values;
    std::function<void(uint64_t epoch)> open;
  };
  // Once: begins to write. The hooks are called by the thread, until the end.
  void Start(Hooks hooks);
  // The thread ends after the file that it writes. Start was called, or not.
  void Stop();
  // Of the task to another server.
  Departures& departures() { return departures_; }
  // One snapshot, now. By the thread, and for tests without one. Fails if another server has the task.
  TfStatus Write();

 private:
  Snapshots(Options options, const tensorflow::ServerDef& def, Claim claim);
  void Restore(const tensorflow::ServerDef& def);
  // All that the old server holds, but for the last round.
  TfStatus Follow(const tensorflow::ServerDef& def);
  TfStatus RestoreFrom(const FolderFile& newest, const tensorflow::ServerDef& def);
  // Removes the files of all other snapshots.
  void DropAllBut(const std::set<std::string>& names);
  const std::string& task() const { return ownership_.own().task; }  // "ps:3"
  void SayObstacle();
  void Work();
  void Round();
  // Adds the file, if there is anything to copy. Without files in the manifest: all that the task holds.
  TfStatus CopyState(Manifest* manifest);
  TfStatus CopyTo(StateWriter* writer, bool is_full, uint64_t* copied);
  Manifest Describe() const;
  // The old side of a move: the rounds, the last one, and then the question who has the task. Fails: with the reason
  // why the task stays.
  TfStatus Depart(Departure* departure);
  TfStatus GiveLast(Departure* departure);

  const Options options_;
  const SnapshotFolder folder_;
  Ownership ownership_;
  std::unique_ptr<tensorflow::DeviceMgr> devices_;
  std::vector<KeptClient> clients_;
  Inventory inventory_;
  Hooks hooks_;
  std::unique_ptr<Arrival> arrival_;  // null: it does not come from another server
  // Manifests whose files begin with the same copy of everything.
  struct Chain {
    std::vector<StateFile> files;  // the newest one's; empty: there is none
    std::string newest, before;    // manifests
  };
  struct Written {
    uint64_t last = 0;  // the highest generation of any file
    Chain chain, last_chain;
    bool must_copy_all = true;
    bool has_removed_all = false;
    bool has_moved = false;
    // This manifest is the newest one. Returns the names of all files that are still needed.
    std::set<std::string> Add(const Manifest& manifest, const std::string& name, bool is_new_chain);
  };
  Written written_;  // of the thread
  LogLimiter warnings_;

  Departures departures_;
  Mutex mutex_;
  CondVar changed_;
  bool is_closing_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Seconds since the oldest of the newest snapshots of this process's tasks; 0 without any.
uint64_t SnapshotAgeS();

}  // namespace fusewire::tf
