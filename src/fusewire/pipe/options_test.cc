// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

namespace fusewire::pipe {
namespace {

using testing::HasSubstr;

TEST(Options, TheUsualOnesMakeSense) {
  Options options;
  EXPECT_TRUE(CheckOptions(options).ok());
  options.secret = "open sesame open";
  EXPECT_TRUE(CheckOptions(options).ok());
}

TEST(Options, AShortSecretIsNotShownAndAnotherIsEasilyMade) {
  Options options;
  options.secret = "open sesame";
  EXPECT_THAT(CheckOptions(options).ToString(), HasSubstr("openssl rand -hex 32"));
  EXPECT_THAT(CheckOptions(options).ToString(), testing::Not(HasSubstr("sesame")));
}

TEST(Options, WhatMakesNoSenseIsNamed) {
  const std::pair<std::function<void(Options*)>, const char*> wrong[] = {
      {[](Options* options) { options->cluster = std::string(513, 'x'); }, "cluster of 513 bytes, limit 512"},
      {[](Options* options) { options->name = "worker\n3"; }, "name holds a control character"},
      {[](Options* options) { options->limits.chunk_bytes_max = 4095; }, "chunk_bytes 4095, at least 4096"},
      {[](Options* options) { options->window_bytes = UINT64_MAX; }, "window_bytes"},
      {[](Options* options) { options->silent_ns_max = 0; }, "silent_ns_max 0, must be over 0"},
      {[](Options* options) { options->hello_ns_max = -1; }, "hello_ns_max -1, must be over 0"},
      {[](Options* options) { options->greetings_max = 0; }, "greetings_max 0"},
      {[](Options* options) { options->connections_max = 0; }, "connections_max 0"},
      {[](Options* options) { options->secret = "open sesame"; }, "a secret of 11 bytes, must have at least 16"},
      {[](Options* options) { options->backoff_ns_max = 1; },
       "backoff_ns_max 1, must be at least backoff_ns_min, 20000000"},
  };
  for (const auto& [spoil, cause] : wrong) {
    Options options;
    spoil(&options);
    Status checked = CheckOptions(options);
    EXPECT_EQ(checked.code(), Code::kInvalid) << cause;
    EXPECT_THAT(checked.cause(), HasSubstr(cause));
    EXPECT_FALSE(checked.next().empty());
  }
}

}  // namespace
}  // namespace fusewire::pipe
