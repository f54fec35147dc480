// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A file system in memory, "held://", whose every operation a test sees first: it may let others go on meanwhile, or
// say that the process is dead, after which nothing has an effect any more.
// Home: any thread; the test sees to it that one is at work at a time. Owns: the files. Fails: as a disk would.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/string_view.h>
#include <tensorflow/core/platform/env.h>
#include <tensorflow/core/platform/file_system.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

enum class FileOperation { kList, kOpen, kCreate, kAppend, kRename, kDelete, kMakeFolder };

class HeldFiles final : public tensorflow::FileSystem {
 public:
  TF_USE_FILESYSTEM_METHODS_WITH_NO_TRANSACTION_SUPPORT;

  using Content = std::shared_ptr<std::string>;  // shared_ptr: a file that was removed is still open
  // False: it fails. `to`: of a rename.
  using Before = std::function<bool(FileOperation operation, const std::string& path, const std::string& to)>;

  // The one of the process, empty. `before` may be null.
  static HeldFiles& Get() {
    static auto* files = [] {
      auto owned = std::make_unique<HeldFiles>();
      HeldFiles* made = owned.get();
      TfStatus registered = tensorflow::Env::Default()->RegisterFileSystem("held", std::move(owned));
      return registered.ok() ? made : nullptr;
    }();
    return *files;
  }
  void SetBefore(Before before) { before_ = std::move(before); }
  void Reset(Before before) {
    before_ = std::move(before);
    files_.clear();
    folders_.clear();
  }
  const std::map<std::string, Content>& files() const { return files_; }

  TfStatus NewRandomAccessFile(const std::string& path, tsl::TransactionToken*,
                               std::unique_ptr<tensorflow::RandomAccessFile>* result) override {
    if (!May(FileOperation::kOpen, path)) return Dead();
    if (files_.count(path) == 0) return absl::NotFoundError(path);
    *result = std::make_unique<Reader>(files_[path]);
    return TfStatus();
  }
  TfStatus NewWritableFile(const std::string& path, tsl::TransactionToken*,
                           std::unique_ptr<tensorflow::WritableFile>* result) override {
    if (!May(FileOperation::kCreate, path)) return Dead();
    files_[path] = std::make_shared<std::string>();
    *result = std::make_unique<Writer>(this, path, files_[path]);
    return TfStatus();
  }
  TfStatus NewAppendableFile(const std::string&, tsl::TransactionToken*,
                             std::unique_ptr<tensorflow::WritableFile>*) override {
    return absl::UnimplementedError("held");
  }
  TfStatus NewReadOnlyMemoryRegionFromFile(const std::string&, tsl::TransactionToken*,
                                           std::unique_ptr<tensorflow::ReadOnlyMemoryRegion>*) override {
    return absl::UnimplementedError("held");
  }
  TfStatus FileExists(const std::string& path, tsl::TransactionToken*) override {
    return files_.count(path) + folders_.count(path) > 0 ? TfStatus() : absl::NotFoundError(path);
  }
  TfStatus GetChildren(const std::string& folder, tsl::TransactionToken*, std::vector<std::string>* names) override {
    if (!May(FileOperation::kList, folder)) return Dead();
    if (folders_.count(folder) == 0) return absl::NotFoundError(folder);
    for (const auto& [path, content] : files_) {
      if (absl::StartsWith(path, folder + "/")) names->push_back(path.substr(folder.size() + 1));
    }
    return TfStatus();
  }
  TfStatus GetMatchingPaths(const std::string&, tsl::TransactionToken*, std::vector<std::string>*) override {
    return absl::UnimplementedError("held");
  }
  TfStatus Stat(const std::string&, tsl::TransactionToken*, tensorflow::FileStatistics*) override {
    return absl::UnimplementedError("held");
  }
  TfStatus GetFileSize(const std::string& path, tsl::TransactionToken*, uint64_t* bytes) override {
    if (files_.count(path) == 0) return absl::NotFoundError(path);
    *bytes = files_[path]->size();
    return TfStatus();
  }
  TfStatus DeleteFile(const std::string& path, tsl::TransactionToken*) override {
    if (!May(FileOperation::kDelete, path)) return Dead();
    return files_.erase(path) > 0 ? TfStatus() : absl::NotFoundError(path);
  }
  TfStatus CreateDir(const std::string& path, tsl::TransactionToken*) override {
    if (!May(FileOperation::kMakeFolder, path)) return Dead();
    folders_.insert(path);
    return TfStatus();
  }
  TfStatus RecursivelyCreateDir(const std::string& path, tsl::TransactionToken* token) override {
    return CreateDir(path, token);
  }
  TfStatus DeleteDir(const std::string&, tsl::TransactionToken*) override { return absl::UnimplementedError("held"); }
  TfStatus RenameFile(const std::string& from, const std::string& to, tsl::TransactionToken*) override {
    if (!May(FileOperation::kRename, from, to)) return Dead();
    const auto found = files_.find(from);
    if (found == files_.end()) return absl::NotFoundError(from);
    files_[to] = found->second;
    files_.erase(found);
    return TfStatus();
  }

 private:
  class Reader final : public tensorflow::RandomAccessFile {
   public:
    explicit Reader(Content content) : content_(std::move(content)) {}
    TfStatus Read(uint64_t at, size_t bytes, absl::string_view* result, char* room) const override {
      const std::string part = at > content_->size() ? "" : content_->substr(static_cast<size_t>(at), bytes);
      part.copy(room, part.size());
      *result = absl::string_view(room, part.size());
      return part.size() == bytes ? TfStatus() : absl::OutOfRangeError("its end");
    }

   private:
    const Content content_;
  };
  class Writer final : public tensorflow::WritableFile {
   public:
    Writer(HeldFiles* files, std::string path, Content content)
        : files_(files), path_(std::move(path)), content_(std::move(content)) {}
    TfStatus Append(absl::string_view data) override {
      if (!files_->May(FileOperation::kAppend, path_)) return Dead();
      content_->append(data.data(), data.size());
      return TfStatus();
    }
    TfStatus Close() override { return TfStatus(); }
    TfStatus Flush() override { return TfStatus(); }
    TfStatus Sync() override { return TfStatus(); }

   private:
    HeldFiles* const files_;
    const std::string path_;
    const Content content_;
  };

  static TfStatus Dead() { return absl::UnavailableError("the process is dead"); }
  bool May(FileOperation operation, const std::string& path, const std::string& to = "") {
    return before_ == nullptr || before_(operation, path, to);
  }

  Before before_;
  std::map<std::string, Content> files_;
  std::set<std::string> folders_;
};

}  // namespace fusewire::tf
