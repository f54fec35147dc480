// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/listening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(Listening, LoopbackIsLoopbackOnly) {
  for (const char* host : {"127.0.0.1", "127.0.0.5"}) {
    EXPECT_EQ(WhereToListen(host).host, host);
    EXPECT_EQ(WhereToListen(host).why, "");
    EXPECT_TRUE(SaysLoopback(host));
  }
  EXPECT_THAT(WhereToListen("localhost").host, AnyOf("127.0.0.1", "::1"));
  EXPECT_TRUE(SaysLoopback("localhost"));
  EXPECT_TRUE(SaysLoopback("::1"));
  const ListeningPlace six = WhereToListen("::1");  // a machine may have no IPv6
  EXPECT_EQ(six.host, six.why.empty() ? "::1" : "");
}

TEST(Listening, EveryInterfaceIsTakenAsAsked) {
  for (const char* host : {"", "*"}) {
    EXPECT_EQ(WhereToListen(host).host, "");
    EXPECT_EQ(WhereToListen(host).why, "");
    EXPECT_FALSE(SaysLoopback(host));
  }
  EXPECT_EQ(WhereToListen("0.0.0.0").host, "0.0.0.0");
}

TEST(Listening, WhatCannotBeToldIsEveryInterfaceWithAReason) {
  const ListeningPlace elsewhere = WhereToListen("192.0.2.1");  // kept free for documents
  EXPECT_EQ(elsewhere.host, "");
  EXPECT_THAT(elsewhere.why, HasSubstr("192.0.2.1 is not an address of this machine"));
  const ListeningPlace unknown = WhereToListen("no-such-host.invalid");
  EXPECT_EQ(unknown.host, "");
  EXPECT_THAT(unknown.why, HasSubstr("no-such-host.invalid"));
  EXPECT_FALSE(SaysLoopback("192.0.2.1"));
  EXPECT_FALSE(SaysLoopback("no-such-host.invalid"));
}

using testing::HasSubstr;

std::vector<OwnAddress> MachineWith(const std::vector<std::pair<std::string, std::string>>& addresses) {
  std::vector<OwnAddress> own;
  for (const auto& [interface, number] : addresses) {
    OwnAddress one;
    one.interface = interface;
    one.number = number;
    FUSEWIRE_CHECK(ParseNumeric(number, 0, &one.address));
    own.push_back(std::move(one));
  }
  return own;
}

const std::vector<OwnAddress>& TwoNets() {
  static const auto* own = new std::vector<OwnAddress>(MachineWith({{"lo", "127.0.0.1"},
                                                                    {"eth0", "192.168.7.5"},
                                                                    {"eth1", "fe80::1"},
                                                                    {"eth1", "fd00::5"},
                                                                    {"eth1", "10.9.8.7"},
                                                                    {"ib0", "2001:db8::7"},
                                                                    {"veth", "fe80::2"}}));
  return *own;
}

TEST(Interfaces, AnInterfaceIsWorthItsFirstUsableAddress) {
  EXPECT_EQ(AddressOfInterface("eth0", TwoNets()).value(), "192.168.7.5");
  EXPECT_EQ(AddressOfInterface("eth1", TwoNets()).value(), "10.9.8.7");  // IPv4 first
  EXPECT_EQ(AddressOfInterface("ib0", TwoNets()).value(), "2001:db8::7");
}

TEST(Interfaces, AnInterfaceWithoutOneSaysWhatTheMachineHas) {
  const Status only_link = AddressOfInterface("veth", TwoNets()).status();
  EXPECT_THAT(only_link.ToString(), HasSubstr("veth has only link-local addresses"));
  EXPECT_THAT(only_link.ToString(), HasSubstr("eth1 10.9.8.7"));
  EXPECT_THAT(AddressOfInterface("eth9", TwoNets()).status().ToString(), HasSubstr("eth9 is down, or has no address"));
  EXPECT_THAT(AddressOfInterface("eth9", {}).status().ToString(), HasSubstr("this machine has no address"));
}

TEST(Interfaces, ANetworkIsWorthTheFirstAddressInIt) {
  EXPECT_EQ(AddressInNetwork("10.0.0.0/8", TwoNets()).value(), "10.9.8.7");
  EXPECT_EQ(AddressInNetwork("192.168.7.4/31", TwoNets()).value(), "192.168.7.5");
  EXPECT_EQ(AddressInNetwork("fd00::/8", TwoNets()).value(), "fd00::5");
  EXPECT_EQ(AddressInNetwork("2001:db8::/127", MachineWith({{"a", "2001:db8::1"}})).value(), "2001:db8::1");
  EXPECT_EQ(AddressInNetwork("0.0.0.0/0", TwoNets()).value(), "127.0.0.1");
  EXPECT_EQ(AddressInNetwork("10.9.8.7/32", TwoNets()).value(), "10.9.8.7");
}

TEST(Interfaces, ANetworkWithoutAnAddressHereIsAnError) {
  for (const char* network : {"10.1.0.0/16", "192.168.7.6/31", "fe80::/10", "172.16.0.0/12"}) {
    const Status failed = AddressInNetwork(network, TwoNets()).status();
    EXPECT_THAT(failed.ToString(), HasSubstr(std::string("no address of this machine is in ") + network));
    EXPECT_THAT(failed.ToString(), HasSubstr("eth0 192.168.7.5"));
  }
}

TEST(Interfaces, AMalformedNetworkIsAnError) {
  for (const char* wrong : {"10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "fd00::/129", "10.0.0/x", "/8", "eth0/8",
                            "10.0.0.0/-1", "10.0.0.0/8/9", "10.0.0.0/0008"}) {
    const Status failed = AddressInNetwork(wrong, TwoNets()).status();
    EXPECT_EQ(failed.code(), Code::kInvalid) << wrong;
    EXPECT_THAT(failed.ToString(), HasSubstr("is not a network")) << wrong;
  }
}

TEST(Interfaces, ThisMachineHasItsLoopback) {
  EXPECT_TRUE(IsInterface("lo"));
  EXPECT_FALSE(IsInterface("fusewire-none"));
  EXPECT_FALSE(IsInterface(""));
  EXPECT_EQ(AddressOfInterface("lo", OwnAddresses()).value(), "127.0.0.1");
}

TEST(Listening, AnOperatorSaysItInFiveWays) {
  EXPECT_EQ(ListenAsSaid("*").value(), "");
  EXPECT_EQ(ListenAsSaid("127.0.0.1").value(), "127.0.0.1");
  EXPECT_EQ(ListenAsSaid("lo").value(), "127.0.0.1");
  EXPECT_EQ(ListenAsSaid("127.0.0.0/8").value(), "127.0.0.1");
  EXPECT_EQ(ListenAsSaid("localhost").value(), "127.0.0.1");
}

TEST(Listening, AWrongWordIsNotReplacedByAnother) {
  EXPECT_THAT(ListenAsSaid("192.0.2.1").status().ToString(), HasSubstr("192.0.2.1 is not an address of this machine"));
  const Status neither = ListenAsSaid("no-such-host.invalid").status();
  EXPECT_THAT(neither.ToString(), HasSubstr("no-such-host.invalid is not an interface of this machine"));
  EXPECT_THAT(neither.ToString(), HasSubstr("lo 127.0.0.1"));
  EXPECT_THAT(ListenAsSaid("fe80::1").status().ToString(), HasSubstr("link-local"));
  EXPECT_THAT(ListenAsSaid("10.0.0.0/99").status().ToString(), HasSubstr("is not a network"));
}

}  // namespace

}  // namespace fusewire::transport
