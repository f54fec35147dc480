// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/network.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

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
  EXPECT_THAT(ErrorOf({"", "9-8", ""}), HasSubstr("FUSEWIRE_PORTS is \"9-8\": it is no range of ports"));
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

}  // namespace
}  // namespace fusewire::tf
