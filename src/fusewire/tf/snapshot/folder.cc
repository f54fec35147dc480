// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/snapshot/folder.h"

#include <algorithm>
#include <functional>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>
#include <tensorflow/core/platform/path.h>

namespace fusewire::tf {
namespace {

constexpr const char *kManifest = ".manifest", *kState = ".state";

// False: it is no file of ours.
bool GenerationOf(absl::string_view file, uint64_t* generation) {
  const size_t dot = file.find('.');
  if (dot == absl::string_view::npos) return false;
  const absl::string_view ending = file.substr(dot);
  const bool is_ours = ending == kState || ending == kManifest || ending == ".manifest.new";
  return is_ours && absl::SimpleAtoi(file.substr(0, dot), generation);
}

}  // namespace

SnapshotFolder::SnapshotFolder(tensorflow::Env* env, const std::string& folder, const std::string& task)
    : env_(env), path_(tensorflow::io::JoinPath(folder, absl::StrReplaceAll(task, {{":", "_"}, {"/", "_"}}))) {}

std::string SnapshotFolder::PathOf(uint64_t generation, const char* ending) const {
  return tensorflow::io::JoinPath(path_, absl::StrFormat("%012d%s", generation, ending));
}

TfStatus SnapshotFolder::List(std::vector<uint64_t>* generations, uint64_t* last) const {
  std::vector<std::string> files;
  TfStatus listed = env_->GetChildren(path_, &files);
  if (absl::IsNotFound(listed)) return TfStatus();
  TF_RETURN_IF_ERROR(listed);
  for (const std::string& file : files) {
    uint64_t generation = 0;
    if (!GenerationOf(file, &generation)) continue;
    *last = std::max(*last, generation);
    if (absl::EndsWith(file, kManifest)) generations->push_back(generation);
  }
  std::sort(generations->begin(), generations->end(), std::greater<>());
  return TfStatus();
}

TfStatus SnapshotFolder::ReadManifest(uint64_t generation, Manifest* manifest) const {
  std::string text;
  uint64_t bytes = 0;
  const std::string path = PathOf(generation, kManifest);
  TF_RETURN_IF_ERROR(env_->GetFileSize(path, &bytes));
  if (bytes > kManifestBytesMax) return absl::DataLossError("the manifest is larger than any");
  TF_RETURN_IF_ERROR(tensorflow::ReadFileToString(env_, path, &text));
  const Status read = DecodeManifest(text, manifest);
  if (!read.ok()) return absl::DataLossError(read.ToString());
  if (manifest->generation != generation) return absl::DataLossError("the manifest is of another snapshot");
  return TfStatus();
}

TfStatus SnapshotFolder::WriteManifest(const Manifest& manifest) const {
  const std::string path = PathOf(manifest.generation, kManifest), written = path + ".new";
  std::unique_ptr<tensorflow::WritableFile> file;
  TF_RETURN_IF_ERROR(env_->NewWritableFile(written, &file));
  TF_RETURN_IF_ERROR(file->Append(EncodeManifest(manifest)));
  TF_RETURN_IF_ERROR(file->Sync());
  TF_RETURN_IF_ERROR(file->Close());
  return env_->RenameFile(written, path);
}

void SnapshotFolder::DropAfter(uint64_t generation) const {
  Drop([generation](const std::string&, uint64_t of_file) { return of_file > generation; });
}

void SnapshotFolder::KeepOnly(const std::set<uint64_t>& manifests, const std::set<uint64_t>& states) const {
  Drop([&](const std::string& file, uint64_t of_file) {
    return (absl::EndsWith(file, kState) ? states : manifests).count(of_file) == 0;
  });
}

void SnapshotFolder::Drop(const std::function<bool(const std::string& file, uint64_t generation)>& is_unwanted) const {
  std::vector<std::string> files;
  if (!env_->GetChildren(path_, &files).ok()) return;
  // Manifests first: a snapshot is not complete without its data.
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    uint64_t generation = 0;
    if (GenerationOf(file, &generation) && is_unwanted(file, generation))
      env_->DeleteFile(tensorflow::io::JoinPath(path_, file)).IgnoreError();
  }
}

}  // namespace fusewire::tf
