// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "fusewire/transport/transport.h"

namespace fusewire::transport {
namespace {

struct Good {
  const char* text;
  const char* host;
  uint16_t port;
  const char* back;  // null: as `text`
};

TEST(Address, ReadsHostAndPort) {
  for (const Good& good : {
           Good{"10.0.0.7:5555", "10.0.0.7", 5555, nullptr},
           Good{"worker-3.train.local:1", "worker-3.train.local", 1, nullptr},
           Good{"[::1]:65535", "::1", 65535, nullptr},
           Good{"[fe80::1%eth0]:80", "fe80::1%eth0", 80, nullptr},
           Good{":5555", "", 5555, nullptr},
           Good{"*:0", "*", 0, nullptr},
           Good{"[10.0.0.7]:5555", "10.0.0.7", 5555, "10.0.0.7:5555"},
           Good{"host:00080", "host", 80, "host:80"},
       }) {
    Result<Address> address = Address::Parse(good.text);
    ASSERT_TRUE(address.ok()) << good.text << ": " << address.status().ToString();
    EXPECT_EQ(address.value().host, good.host);
    EXPECT_EQ(address.value().port, good.port);
    EXPECT_EQ(address.value().ToString(), good.back == nullptr ? good.text : good.back);
  }
}

TEST(Address, SaysWhatIsWrong) {
  struct Bad {
    const char* text;
    const char* why;
  };
  for (const Bad& bad : {
           Bad{"", "no port"},
           Bad{"host", "no port"},
           Bad{"host:", "not a number"},
           Bad{"host:port", "not a number"},
           Bad{"host:-1", "not a number"},
           Bad{"host:+80", "not a number"},
           Bad{"host:80 ", "not a number"},
           Bad{"host:65536", "over 65535"},
           Bad{"host:99999", "over 65535"},
           Bad{"host:123456789012345678901234567890", "not a number"},
           Bad{"::1", "brackets"},
           Bad{"::1:80", "brackets"},
           Bad{"[::1", "not closed"},
           Bad{"[::1]", "no port after"},
           Bad{"[::1]80", "no port after"},
           Bad{"[::1]x:80", "no port after"},
           Bad{"[[::1]:80", "no spaces, slashes, brackets"},
           Bad{"a]b:80", "no spaces, slashes, brackets"},
           Bad{"host\x1b[2J:80", "control characters"},
           Bad{"http://host:80", "brackets"},
           Bad{"a host:80", "spaces"},
           Bad{"host/path:80", "slashes"},
           Bad{"host\n:80", "spaces"},
       }) {
    Result<Address> address = Address::Parse(bad.text);
    ASSERT_FALSE(address.ok()) << bad.text;
    EXPECT_EQ(address.status().code(), Code::kInvalid);
    EXPECT_NE(address.status().cause().find(bad.why), std::string::npos) << address.status().ToString();
    EXPECT_NE(address.status().cause().find(bad.text), std::string::npos) << address.status().ToString();
    EXPECT_NE(address.status().phase(), "");
    EXPECT_NE(address.status().next(), "");
  }
}

}  // namespace
}  // namespace fusewire::transport
