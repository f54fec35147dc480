// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/endpoint_map.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "fusewire/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(EndpointMap, NamesDataPorts) {
  std::string bad;
  EXPECT_THAT(ParseEndpointMap("# two tasks\n\n host:1111=data:2222 \r\n10.0.0.1:3=[::1]:4\n", &bad),
              UnorderedElementsAre(Pair("host:1111", "data:2222"), Pair("10.0.0.1:3", "[::1]:4")));
  EXPECT_EQ(bad, "");
}

TEST(EndpointMap, NamesWhatItCannotRead) {
  std::string bad;
  EXPECT_THAT(ParseEndpointMap("host:1111\nhost:1=data:2\na:b=c:d\n", &bad),
              UnorderedElementsAre(Pair("host:1", "data:2")));
  EXPECT_EQ(bad, "host:1111, a:b=c:d");
}

TEST(EndpointMap, SaysLittleAboutMuchThatItCannotRead) {
  std::string text, bad;
  for (int i = 0; i < 10000; ++i) text += std::string(1000, '\x1b') + "\n";
  EXPECT_TRUE(ParseEndpointMap(text, &bad).empty());
  EXPECT_LT(bad.size(), 600u);
  EXPECT_THAT(bad, testing::HasSubstr("and 9995 more"));
  EXPECT_EQ(bad.find('\x1b'), std::string::npos);
}

// A folder for a map, quiet while it exists.
class EndpointMapFile : public testing::Test {
 protected:
  EndpointMapFile() {
    SetLogLevel(LogLevel::kError);
    EXPECT_EQ(mkdir(folder_.c_str(), 0700), 0);
    chmod(folder_.c_str(), 0755);
  }
  ~EndpointMapFile() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
    SetLogLevel(LogLevel::kWarn);
  }
  void Write(const std::string& text, mode_t mode = 0644) {
    std::ofstream(path_) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
  }
  bool IsRead() const { return !ReadEndpointMap(folder_).empty(); }

  const std::string folder_ = testing::TempDir() + "endpoint_map_" + std::to_string(getpid());
  const std::string path_ = folder_ + "/.endpoint_map";
};

TEST_F(EndpointMapFile, IsReadFromItsFolder) {
  EXPECT_FALSE(IsRead());
  Write("a:1=b:2\n");
  EXPECT_THAT(ReadEndpointMap(folder_), UnorderedElementsAre(Pair("a:1", "b:2")));
  EXPECT_THAT(ReadEndpointMap(folder_ + "/"), UnorderedElementsAre(Pair("a:1", "b:2")));
}

// For these a start would wait for ever, or until its memory is used up.
TEST_F(EndpointMapFile, IsAFileOfBoundedLength) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(IsRead());
  unlink(path_.c_str());
  ASSERT_EQ(symlink("/dev/zero", path_.c_str()), 0);
  EXPECT_FALSE(IsRead());
  unlink(path_.c_str());
  Write("a:1=b:2\n" + std::string(3 << 20, '#'));
  EXPECT_FALSE(IsRead());
}

TEST_F(EndpointMapFile, IsLeftOutIfOthersCanWriteItOrItsFolder) {
  Write("a:1=b:2\n");
  for (const mode_t open_to_others : {0664, 0646, 0666}) {
    chmod(path_.c_str(), open_to_others);
    EXPECT_FALSE(IsRead()) << std::oct << open_to_others;
  }
  chmod(path_.c_str(), 0644);
  EXPECT_TRUE(IsRead());
  for (const mode_t open_to_others : {0775, 0757, 01777}) {
    chmod(folder_.c_str(), open_to_others);
    EXPECT_FALSE(IsRead()) << std::oct << open_to_others;
  }
}

TEST_F(EndpointMapFile, IsLeftOutIfItIsALinkToAnother) {
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "a:1=b:2\n";
  ASSERT_EQ(symlink(other.c_str(), path_.c_str()), 0);
  EXPECT_FALSE(IsRead());
  unlink(other.c_str());
}

TEST_F(EndpointMapFile, IsLeftOutIfAnotherUserOwnsItOrItsFolder) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  Write("a:1=b:2\n");
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(IsRead());
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  EXPECT_TRUE(IsRead());
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(IsRead());
}

}  // namespace
}  // namespace fusewire::tf
