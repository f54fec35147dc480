// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace fusewire {
namespace observe {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  Folder() : root_(testing::TempDir() + "folder_test." + std::to_string(getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~Folder() override { fs::remove_all(root_); }
  const std::string root_;
};

TEST_F(Folder, IsMadeForThisUserAlone) {
  Result<std::string> folder = OpenFolder("", root_);
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(folder.value(), root_ + "/fusewire-" + std::to_string(geteuid()));
  EXPECT_EQ(fs::status(folder.value()).permissions(), fs::perms::owner_all);
  EXPECT_TRUE(OpenFolder("", root_).ok());
  // The user's own runtime folder is preferred, and a folder that is not there is left alone.
  Result<std::string> runtime = OpenFolder(root_, "/nowhere");
  ASSERT_TRUE(runtime.ok());
  EXPECT_EQ(runtime.value(), root_ + "/fusewire");
  EXPECT_EQ(OpenFolder(root_ + "/absent", root_).value(), folder.value());
}

TEST_F(Folder, IsRefusedIfOthersCanEnterItOrItIsALink) {
  const std::string path = root_ + "/fusewire-" + std::to_string(geteuid());
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all | fs::perms::others_exec);
  EXPECT_EQ(OpenFolder("", root_).status().code(), Code::kRefused);
  fs::remove(path);
  fs::create_directory(root_ + "/elsewhere");
  fs::permissions(root_ + "/elsewhere", fs::perms::owner_all);
  fs::create_directory_symlink(root_ + "/elsewhere", path);
  EXPECT_EQ(OpenFolder("", root_).status().code(), Code::kRefused);
  EXPECT_EQ(OpenFolder("", root_ + "/absent").status().code(), Code::kUnavailable);
}

TEST_F(Folder, FilesOfProcessesThatHaveEndedAreRemoved) {
  const uint64_t own = StartOf(getpid());
  ASSERT_GT(own, 0u);
  EXPECT_EQ(StartOf(1 << 29), 0u);
  ASSERT_TRUE(WriteEntry(root_, getpid(), "{\"pid\":1,\"start\":" + std::to_string(own) + "}").ok());
  ASSERT_TRUE(WriteEntry(root_, 1 << 29, "{\"start\":5}").ok());
  ASSERT_TRUE(WriteEntry(root_, 1, "{\"start\":1}").ok());  // the number belongs to another process now
  std::ofstream(root_ + "/notes.txt") << "not ours";
  RemoveStale(root_, 60);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 4);
  RemoveStale(root_, 0);
  EXPECT_TRUE(fs::exists(root_ + "/" + std::to_string(getpid()) + ".json"));
  EXPECT_TRUE(fs::exists(root_ + "/notes.txt"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 2);
  RemoveEntry(root_, getpid());
  EXPECT_FALSE(fs::exists(root_ + "/" + std::to_string(getpid()) + ".json"));
  EXPECT_FALSE(WriteEntry(root_ + "/absent", 1, "{}").ok());
}

}  // namespace
}  // namespace observe
}  // namespace fusewire
