// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/network.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "fusewire/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

std::string ErrorOf(const NetworkWords& words) {
  Result<NetworkSettings> read = ReadNetwork(words);
  return read.ok() ? "" : read.status().ToString();
}

TEST(DataPorts, AreOnLoopbackWhereAllOfTheClusterIs) {
  const std::map<std::string, std::string> here = {{"ps", "localhost:1"}, {"worker", "127.0.0.1:2"}, {"w", "[::1]:3"}};
  EXPECT_EQ(WhereDataPortsAre("", "127.0.0.1:2", here).value().host, "127.0.0.1");
  EXPECT_NE(WhereDataPortsAre("", "localhost:1", here).value().host, "");
  EXPECT_EQ(WhereDataPortsAre("", "localhost:1", here).value().why, "");
  const std::map<std::string, std::string> wide = {{"ps", "localhost:1"}, {"worker", "192.0.2.1:2"}};
  const transport::ListeningPlace place = WhereDataPortsAre("", "localhost:1", wide).value();
  EXPECT_EQ(place.host, "");
  EXPECT_THAT(place.why, HasSubstr("worker is elsewhere"));
}

TEST(DataPorts, AreWhereTheSettingSays) {
  EXPECT_EQ(WhereDataPortsAre("127.0.0.1", "192.0.2.1:1", {}).value().host, "127.0.0.1");
  EXPECT_EQ(WhereDataPortsAre("*", "127.0.0.1:1", {}).value().host, "");
  EXPECT_EQ(WhereDataPortsAre("lo", "192.0.2.1:1", {}).value().host, "127.0.0.1");
  EXPECT_EQ(WhereDataPortsAre("127.0.0.0/8", "192.0.2.1:1", {}).value().host, "127.0.0.1");
}

TEST(DataPorts, OfAWrongSettingAreNowhere) {
  for (const char* wrong : {"192.0.2.1", "eth-none", "198.51.100.0/24", "10.0.0.0/99", "fe80::1"}) {
    Result<transport::ListeningPlace> place = WhereDataPortsAre(wrong, "127.0.0.1:1", {});
    ASSERT_FALSE(place.ok()) << wrong;
    EXPECT_THAT(place.status().ToString(), HasSubstr("FUSEWIRE_BIND is \"" + std::string(wrong) + "\": ")) << wrong;
    EXPECT_NE(place.status().next(), "") << wrong;
  }
}

TEST(DataPorts, AreNotOnALinkLocalAddressOfTheCluster) {
  Result<transport::ListeningPlace> place = WhereDataPortsAre("", "[fe80::1]:2222", {});
  ASSERT_FALSE(place.ok());
  EXPECT_THAT(place.status().ToString(), HasSubstr("fe80::1, a link-local address"));
  EXPECT_THAT(place.status().next(), HasSubstr("TF_CONFIG"));
}

TEST(DataPorts, AreTakenFromARange) {
  pipe::PortRange ports;
  EXPECT_TRUE(ParsePorts("40000-40100", &ports));
  EXPECT_EQ(ports.min, 40000);
  EXPECT_EQ(ports.max, 40100);
  EXPECT_TRUE(ParsePorts("7", &ports));
  EXPECT_EQ(ports.min, 7);
  EXPECT_EQ(ports.max, 7);
  for (const char* wrong : {"", "-", "0", "5-", "-5", "9-8", "65536", "1-65536", "1-2-3", "x", "+5", " 5"}) {
    EXPECT_FALSE(ParsePorts(wrong, &ports)) << wrong;
  }
  EXPECT_EQ(ReadNetwork({"", "40000", ""}).value().ports.max, 40000);
  EXPECT_EQ(ReadNetwork({}).value().ports.max, 0);
  EXPECT_THAT(ErrorOf({"", "9-8", ""}), HasSubstr("FUSEWIRE_PORTS is \"9-8\": it is not a range of ports"));
  EXPECT_THAT(ErrorOf({"", "9-8", ""}), HasSubstr("40000-40100"));
}

TEST(AdvertisedAddress, IsAHostWithOrWithoutAPort) {
  const auto read = [](const std::string& text) { return ReadNetwork({"", "", text}).value().advertise.ToString(); };
  EXPECT_EQ(read("gate.example.com"), "gate.example.com:0");
  EXPECT_EQ(read("203.0.113.9:40000"), "203.0.113.9:40000");
  EXPECT_EQ(read("[2001:db8::1]:7"), "[2001:db8::1]:7");
  EXPECT_EQ(read("[2001:db8::1]"), "[2001:db8::1]:0");
  EXPECT_EQ(read("2001:db8::1"), "[2001:db8::1]:0");
  EXPECT_EQ(read(""), ":0");
}

TEST(AdvertisedAddress, NamesOneMachine) {
  for (const char* wrong : {":5", "*", "*:5", "0.0.0.0", "[::]:5", "::", "host:0", "host:70000", "host:x", "a b",
                            "fe80::1", "[fe80::1]:5", "[::1", "10.0.0.0/8", ":", "host:"}) {
    const std::string error = ErrorOf({"", "", wrong});
    EXPECT_THAT(error, HasSubstr("FUSEWIRE_ADVERTISE is \"" + std::string(wrong) + "\": ")) << wrong;
    EXPECT_THAT(error, HasSubstr("host:port")) << wrong;
  }
}

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

TEST(EndpointMap, LimitsTheLogOfMalformedLines) {
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
