// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The folder of one task's snapshots. The name of each file says whose it is: no server ever writes a file of another
// one, and none removes a file of a later owner.
//   FOLDER/ps_3/owner.8.9f3a5c0012ab34cd                    that server has taken the task, with epoch 8
//   FOLDER/ps_3/000000000012.8.9f3a5c0012ab34cd.state       its data file
//   FOLDER/ps_3/000000000012.8.9f3a5c0012ab34cd.manifest    a snapshot is complete once its manifest has its name,
//   which
//                                                           it gets last
// Files of Fusewire without owners are 000000000012.state and .manifest: epoch 0.
// Home: one thread at a time. Owns: nothing but paths. Fails: with the file system's reason.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <tensorflow/core/platform/env.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"

namespace fusewire::tf {

// Who has taken the task, the higher one last. No two servers have the same holder.
struct Tenure {
  uint64_t epoch = 0, holder = 0;
  bool operator<(const Tenure& other) const { return key() < other.key(); }
  bool operator==(const Tenure& other) const { return key() == other.key(); }
  bool operator!=(const Tenure& other) const { return !(*this == other); }

 private:
  std::tuple<uint64_t, uint64_t> key() const { return {epoch, holder}; }
};

enum class FolderFileKind : uint8_t { kOwner, kState, kManifest, kUnfinished };

// What a name says.
struct FolderFile {
  FolderFileKind kind = FolderFileKind::kUnfinished;
  Tenure tenure;
  uint64_t generation = 0;
  std::string name;
};

class SnapshotFolder {
 public:
  SnapshotFolder(tensorflow::Env* env, const std::string& folder, const std::string& task);

  const std::string& path() const { return path_; }
  tensorflow::Env* env() const { return env_; }
  std::string PathOf(const std::string& name) const;
  static std::string StateName(const Tenure& tenure, uint64_t generation);
  static std::string ManifestName(const Tenure& tenure, uint64_t generation);

  TfStatus Make() const;
  // Files of ours. A folder that is not there has none.
  TfStatus List(std::vector<FolderFile>* files) const;
  // `name` is that of a file of ours, and of no other folder.
  static bool Parse(const std::string& name, FolderFile* file);

  TfStatus ReadManifest(const FolderFile& file, Manifest* manifest) const;
  // Completes the snapshot.
  TfStatus WriteManifest(const Manifest& manifest) const;
  TfStatus ReadOwner(const FolderFile& file, Owner* owner) const;
  TfStatus WriteOwner(const Owner& owner) const;
  // What can't be removed stays.
  void RemoveOwner(const Tenure& tenure) const;
  // Removes those that `is_unwanted` says and that are the owner's own or of epochs before; manifests first. `may_go`
  // is asked before each: false ends it. What can't be removed stays.
  void Drop(const Tenure& own, const std::function<bool(const FolderFile& file)>& is_unwanted,
            const std::function<bool()>& may_go) const;

 private:
  TfStatus ReadSmall(const std::string& name, size_t bytes_max, std::string* text) const;
  // All or nothing.
  TfStatus WriteSmall(const std::string& name, const std::string& text) const;

  tensorflow::Env* const env_;
  const std::string path_;
};

}  // namespace fusewire::tf
