// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The folder of one task's snapshots: FOLDER/ps_3/000000000012.state and .manifest. A snapshot is complete once its
// manifest has its name, which it gets last.
// Home: one thread at a time. Owns: nothing but paths. Fails: with the file system's reason.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <tensorflow/core/platform/env.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/snapshots.h"

namespace fusewire::tf {

class SnapshotFolder {
 public:
  SnapshotFolder(tensorflow::Env* env, const std::string& folder, const std::string& task);

  const std::string& path() const { return path_; }
  std::string StatePath(uint64_t generation) const { return PathOf(generation, ".state"); }
  TfStatus Make() const { return env_->RecursivelyCreateDir(path_); }
  // Of complete snapshots, the newest first. *last: the highest number of any file.
  TfStatus List(std::vector<uint64_t>* generations, uint64_t* last) const;
  TfStatus ReadManifest(uint64_t generation, Manifest* manifest) const;
  // Completes the snapshot.
  TfStatus WriteManifest(const Manifest& manifest) const;
  // Removes all files of later ones.
  void DropAfter(uint64_t generation) const;
  // Removes all other manifests and data files. What can't be removed stays.
  void KeepOnly(const std::set<uint64_t>& manifests, const std::set<uint64_t>& states) const;

 private:
  std::string PathOf(uint64_t generation, const char* ending) const;
  void Drop(const std::function<bool(const std::string& file, uint64_t generation)>& is_unwanted) const;

  tensorflow::Env* const env_;
  const std::string path_;
};

}  // namespace fusewire::tf
