// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A folder for a test, which goes with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace fusewire::tf {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = testing::TempDir() + "fusewireXXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace fusewire::tf
