// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/folder.h"

#include <memory>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>
#include <tensorflow/core/platform/path.h>

namespace fusewire::tf {
namespace {

constexpr const char *kOwner = "owner", *kManifest = "manifest", *kState = "state", *kNew = ".new";
constexpr size_t kHolderDigits = 16;

std::string NameOf(const Tenure& tenure, uint64_t generation, const char* ending) {
  return absl::StrFormat("%012d.%d.%016x.%s", generation, tenure.epoch, tenure.holder, ending);
}

std::string OwnerName(const Tenure& tenure) {
  return absl::StrFormat("%s.%d.%016x", kOwner, tenure.epoch, tenure.holder);
}

bool ReadTenure(absl::string_view epoch, absl::string_view holder, Tenure* tenure) {
  return holder.size() == kHolderDigits && absl::SimpleAtoi(epoch, &tenure->epoch) &&
         absl::SimpleHexAtoi(holder, &tenure->holder);
}

}  // namespace

SnapshotFolder::SnapshotFolder(tensorflow::Env* env, const std::string& folder, const std::string& task)
    : env_(env), path_(tensorflow::io::JoinPath(folder, absl::StrReplaceAll(task, {{":", "_"}, {"/", "_"}}))) {}

std::string SnapshotFolder::PathOf(const std::string& name) const { return tensorflow::io::JoinPath(path_, name); }

std::string SnapshotFolder::StateName(const Tenure& tenure, uint64_t generation) {
  return NameOf(tenure, generation, kState);
}

std::string SnapshotFolder::ManifestName(const Tenure& tenure, uint64_t generation) {
  return NameOf(tenure, generation, kManifest);
}

bool SnapshotFolder::Parse(const std::string& name, FolderFile* file) {
  *file = FolderFile();
  file->name = name;
  absl::string_view whole = name;
  const bool is_new = absl::ConsumeSuffix(&whole, kNew);
  const std::vector<absl::string_view> words = absl::StrSplit(whole, '.');
  if (words.size() == 3 && words[0] == kOwner) {
    file->kind = FolderFileKind::kOwner;
    if (!ReadTenure(words[1], words[2], &file->tenure)) return false;
  } else if (words.size() == 2 || words.size() == 4) {
    if (words.back() != kState && words.back() != kManifest) return false;
    file->kind = words.back() == kState ? FolderFileKind::kState : FolderFileKind::kManifest;
    if (words.size() == 4 && !ReadTenure(words[1], words[2], &file->tenure)) return false;
    if (!absl::SimpleAtoi(words[0], &file->generation)) return false;
  } else {
    return false;
  }
  if (is_new) file->kind = FolderFileKind::kUnfinished;
  return true;
}

TfStatus SnapshotFolder::Make() const {
  TfStatus made = env_->RecursivelyCreateDir(path_);
  return absl::IsAlreadyExists(made) ? TfStatus() : made;
}

TfStatus SnapshotFolder::List(std::vector<FolderFile>* files) const {
  std::vector<std::string> names;
  files->clear();
  TfStatus listed = env_->GetChildren(path_, &names);
  if (absl::IsNotFound(listed)) return TfStatus();
  TF_RETURN_IF_ERROR(listed);
  for (const std::string& name : names) {
    FolderFile file;
    if (Parse(name, &file)) files->push_back(std::move(file));
  }
  return TfStatus();
}

TfStatus SnapshotFolder::ReadManifest(const FolderFile& file, Manifest* manifest) const {
  std::string text;
  TF_RETURN_IF_ERROR(ReadSmall(file.name, kManifestBytesMax, &text));
  const Status read = DecodeManifest(text, manifest);
  if (!read.ok()) return absl::DataLossError(read.ToString());
  if (manifest->generation != file.generation || Tenure{manifest->epoch, manifest->holder} != file.tenure)
    return absl::DataLossError("the manifest is of another snapshot");
  for (const StateFile& state : manifest->files) {
    FolderFile parsed;
    const bool is_ours = Parse(state.name, &parsed) && parsed.kind == FolderFileKind::kState;
    if (!is_ours || parsed.generation != state.generation)
      return absl::DataLossError("the manifest names a file that is not a data file");
  }
  return TfStatus();
}

TfStatus SnapshotFolder::WriteManifest(const Manifest& manifest) const {
  return WriteSmall(ManifestName({manifest.epoch, manifest.holder}, manifest.generation), EncodeManifest(manifest));
}

TfStatus SnapshotFolder::ReadOwner(const FolderFile& file, Owner* owner) const {
  std::string text;
  TF_RETURN_IF_ERROR(ReadSmall(file.name, kOwnerBytesMax, &text));
  const Status read = DecodeOwner(text, owner);
  if (!read.ok()) return absl::DataLossError(read.ToString());
  if (Tenure{owner->epoch, owner->holder} != file.tenure)
    return absl::DataLossError("the owner file is of another server");
  return TfStatus();
}

TfStatus SnapshotFolder::WriteOwner(const Owner& owner) const {
  return WriteSmall(OwnerName({owner.epoch, owner.holder}), EncodeOwner(owner));
}

void SnapshotFolder::RemoveOwner(const Tenure& tenure) const {
  env_->DeleteFile(PathOf(OwnerName(tenure))).IgnoreError();
}

TfStatus SnapshotFolder::ReadSmall(const std::string& name, size_t bytes_max, std::string* text) const {
  uint64_t bytes = 0;
  TF_RETURN_IF_ERROR(env_->GetFileSize(PathOf(name), &bytes));
  if (bytes > bytes_max) return absl::DataLossError(absl::StrCat(name, " is larger than any such file"));
  return tensorflow::ReadFileToString(env_, PathOf(name), text);
}

TfStatus SnapshotFolder::WriteSmall(const std::string& name, const std::string& text) const {
  const std::string path = PathOf(name), written = path + kNew;
  std::unique_ptr<tensorflow::WritableFile> file;
  TF_RETURN_IF_ERROR(env_->NewWritableFile(written, &file));
  TF_RETURN_IF_ERROR(file->Append(text));
  TF_RETURN_IF_ERROR(file->Sync());
  TF_RETURN_IF_ERROR(file->Close());
  return env_->RenameFile(written, path);
}

void SnapshotFolder::Drop(const Tenure& own, const std::function<bool(const FolderFile& file)>& is_unwanted,
                          const std::function<bool()>& may_go) const {
  std::vector<FolderFile> files;
  if (!List(&files).ok()) return;
  // A snapshot is not complete without its data.
  std::stable_partition(files.begin(), files.end(),
                        [](const FolderFile& file) { return file.kind == FolderFileKind::kManifest; });
  for (const FolderFile& file : files) {
    const bool may_write = file.tenure == own || file.tenure.epoch < own.epoch;
    if (!may_write || !is_unwanted(file)) continue;
    if (!may_go()) return;
    env_->DeleteFile(PathOf(file.name)).IgnoreError();
  }
}

}  // namespace fusewire::tf
