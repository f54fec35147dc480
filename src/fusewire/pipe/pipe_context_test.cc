// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/pipe_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/pipe/options.h"

namespace fusewire::pipe {
namespace {

constexpr uint64_t kContainerBytes = uint64_t{64} << 20;

// In a process that has made no budget yet. 0: it is a quarter of what the container may use.
int BudgetInAContainer() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("limits", "/sys/fs/cgroup", "tmpfs", 0, nullptr) != 0) {
    return 2;
  }
  std::ofstream("/sys/fs/cgroup/memory.max") << kContainerBytes << "\n";
  return PipeContext(Options()).receive_budget().limit_bytes() == kContainerBytes / 4 ? 0 : 1;
}

TEST(SharedDeathTest, TheBudgetOfAProcessIsOfWhatItsContainerMayUse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may make a mount namespace";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto ended = [](int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) std::cerr << "no mount namespace can be had here";
    return WIFEXITED(status) && WEXITSTATUS(status) != 1;
  };
  EXPECT_EXIT(_exit(BudgetInAContainer()), ended, "");
}

TEST(PipeContext, EachContextIsAnIncarnationOfItsOwn) {
  Options drawn;
  EXPECT_NE(PipeContext(drawn).options().incarnation, PipeContext(drawn).options().incarnation);
  EXPECT_GT(PipeContext(drawn).receive_budget().limit_bytes(), uint64_t{64} << 20);
  drawn.incarnation = 7;
  EXPECT_EQ(PipeContext(drawn).options().incarnation, 7u);
}

TEST(PipeContext, WithoutItsOwnBudgetSharesThatOfTheProcess) {
  Options own;
  own.receive_budget_bytes = 1 << 20;
  own.window_budget_bytes = 1 << 20;
  PipeContext node{Options()}, endpoint{Options()}, apart{own};
  EXPECT_EQ(&node.receive_budget(), &endpoint.receive_budget());
  EXPECT_EQ(&node.windows(), &endpoint.windows());
  EXPECT_NE(&node.receive_budget(), &apart.receive_budget());
  EXPECT_NE(&node.windows(), &apart.windows());
  const uint64_t before = endpoint.windows().used_bytes();
  std::optional<uint64_t> window = node.TakeWindow();
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(endpoint.windows().used_bytes(), before + *window);
  node.ReturnWindow(*window);
}

TEST(PipeContext, AnotherNameOfATaskCountsIntoItsBudgets) {
  Options own;
  own.receive_budget_bytes = 1 << 20;
  PipeContext task(own);
  own.receive_budget_bytes = 2 << 20;
  own.name = "another";
  PipeContext endpoint(own, task);
  EXPECT_EQ(&endpoint.receive_budget(), &task.receive_budget());
  EXPECT_EQ(&endpoint.windows(), &task.windows());
  EXPECT_EQ(endpoint.options().name, "another");
  EXPECT_NE(endpoint.options().incarnation, task.options().incarnation);
}

// A machine of 4 GiB, and windows as TensorFlow's servers ask for.
TEST(PipeContext, WindowsGetSmallerAsTheirBudgetIsUsedUpSoThatThousandsHaveOne) {
  Options options;
  options.window_bytes = 1 << 20;
  options.window_budget_bytes = 256 << 20;
  PipeContext context(options);
  std::vector<uint64_t> taken;
  while (std::optional<uint64_t> window = context.TakeWindow()) {
    EXPECT_LE(*window, taken.empty() ? options.window_bytes : taken.back());
    taken.push_back(*window);
    ASSERT_LT(taken.size(), 100000u);
  }
  EXPECT_EQ(taken.front(), 256u << 10);
  EXPECT_GE(taken[1000], 64u << 10);
  EXPECT_GT(taken.size(), 3500u);
  EXPECT_LE(context.windows().used_bytes(), options.window_budget_bytes);
  for (uint64_t window : taken) context.ReturnWindow(window);
  EXPECT_EQ(context.windows().used_bytes(), 0u);
  EXPECT_EQ(context.TakeWindow(), 256u << 10);
}

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
