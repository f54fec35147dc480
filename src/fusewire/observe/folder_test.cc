// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fusewire/observe/port.h"
#include "fusewire/observe/process.h"

namespace fusewire::observe {
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
  ASSERT_TRUE(WriteEntry(root_, getpid(), 0, "{\"pid\":1,\"start\":" + std::to_string(own) + "}").ok());
  ASSERT_TRUE(WriteEntry(root_, 1 << 29, 2, "{\"start\":5}").ok());
  ASSERT_TRUE(WriteEntry(root_, 1, 0, "{\"start\":1}").ok());  // the number belongs to another process now
  std::ofstream(root_ + "/notes.txt") << "not ours";
  RemoveStale(root_, 60);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 4);
  RemoveStale(root_, 0);
  EXPECT_TRUE(fs::exists(root_ + "/" + std::to_string(getpid()) + ".json"));
  EXPECT_TRUE(fs::exists(root_ + "/notes.txt"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 2);
  RemoveEntry(root_, getpid(), 0);
  EXPECT_FALSE(fs::exists(root_ + "/" + std::to_string(getpid()) + ".json"));
  EXPECT_FALSE(WriteEntry(root_ + "/absent", 1, 0, "{}").ok());
}

std::string EntryOf(uint64_t start, uint16_t port) {
  return "{\"start\":" + std::to_string(start) + ",\"host\":\"127.0.0.1\",\"port\":" + std::to_string(port) + "}";
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The plug-in and libfusewire in one process: each has a port, and none overwrites the other's file.
TEST_F(Folder, TwoLibrariesOfAProcessHaveAFileEach) {
  const std::string first_path = root_ + "/77.json", second_path = root_ + "/77.1.json";
  Port::Options options;
  options.answer = [](const Request&) { return Answer(); };
  auto first = Port::Open(options), second = Port::Open(options);
  ASSERT_TRUE(first.ok() && second.ok());
  const uint16_t ports[] = {first.value()->port(), second.value()->port()};
  EXPECT_EQ(ClaimEntry(root_, 77, 5, EntryOf(5, ports[0])).value(), 0);
  EXPECT_EQ(ClaimEntry(root_, 77, 5, EntryOf(5, ports[1])).value(), 1);
  EXPECT_EQ(ReadFile(first_path), EntryOf(5, ports[0]));
  EXPECT_EQ(ReadFile(second_path), EntryOf(5, ports[1]));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 2);

  // The port of the program before exec() is gone; so is an earlier process of the same number.
  first = Status::Cancelled("closed");
  EXPECT_EQ(ClaimEntry(root_, 77, 5, EntryOf(5, 9)).value(), 0);
  EXPECT_EQ(ClaimEntry(root_, 77, 6, EntryOf(6, ports[1])).value(), 0);
  EXPECT_EQ(ReadFile(first_path), EntryOf(6, ports[1]));
  RemoveStale(root_, 0);
  EXPECT_FALSE(fs::exists(second_path));
  EXPECT_FALSE(ClaimEntry(root_ + "/absent", 77, 5, EntryOf(5, 9)).ok());
}

}  // namespace
}  // namespace fusewire::observe
