// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fusewire/base/sanitizers.h"
#include "fusewire/observe/client_test.h"

namespace fusewire::observe {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Watch::Options OptionsIn(const std::string& folder) {
  Watch::Options options;
  options.version = "1.2";
  options.temporary = folder;
  options.numbers = [] { return std::vector<Number>{{"calls_out", "Calls.", false, 9}}; };
  return options;
}

std::string NewFolder() {
  std::string folder = testing::TempDir() + "watch_test." + std::to_string(getpid());
  fs::create_directories(folder);
  return folder;
}

TaskFacts TaskOf(const std::string& name) {
  TaskFacts task;
  task.task = name;
  task.protocol = "grpc++";
  return task;
}

void ExpectChildHasItsOwn(Watch& watch, const std::string& folder) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    Status started;
    const bool is_clean = Watch::Get() == nullptr && TheRecorder() == nullptr;
    Watch& own = Watch::Start(OptionsIn(folder), &started);
    const bool serves =
        started.ok() && own.port() != watch.port() &&
        Get(own.port(), "/status.json").find("\"pid\":" + std::to_string(getpid())) != std::string::npos;
    watch.Leave();  // not its file
    own.Leave();
    _exit(is_clean && serves ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// All in one test: a process has one, until its end.
TEST(Watch, ServesAllTasksOfItsProcessAndAChildHasItsOwn) {
  const std::string folder = NewFolder();
  ASSERT_EQ(Watch::Get(), nullptr);
  Status failed;
  Watch& watch = Watch::Start(OptionsIn(folder), &failed);
  ASSERT_TRUE(failed.ok()) << failed.ToString();
  EXPECT_EQ(&Watch::Start(OptionsIn(folder), &failed), &watch);
  EXPECT_EQ(Watch::Get(), &watch);
  watch.AddTask(TaskOf("ps:0"));
  watch.AddTask(TaskOf("worker:0"));
  watch.SetMembers("worker:0", {{"ps:0", "host:2222"}});
  watch.AddTask(TaskOf("worker:1"));
  watch.SetMembers("worker:1", {{"ps:0", "host:2222"}});

  const std::string file = folder + "/fusewire-" + std::to_string(geteuid()) + "/" + std::to_string(getpid()) + ".json";
  EXPECT_THAT(ReadFile(file), HasSubstr("\"port\":" + std::to_string(watch.port())));
  // The same members are said once.
  EXPECT_THAT(ReadFile(file), HasSubstr(R"({"task":"worker:0","members":{"ps:0":"host:2222"}},)"
                                        R"({"task":"worker:1","members":{}})"));

  Op op = BeginOp(FindTag(Kind::kReceive, "worker:0", "ps:0", "weights"), 1, 2, Clock::Real()->NowNs());
  EXPECT_TRUE(op);
  EXPECT_THAT(Get(watch.port(), "/healthz"), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(Get(watch.port(), "/status.json"), HasSubstr(R"("task":"ps:0")"));
  EXPECT_THAT(Get(watch.port(), "/status.json"), HasSubstr(R"("name":"weights")"));
  EXPECT_THAT(Get(watch.port(), "/ring.json?after_ns=5"), HasSubstr(R"("name":"weights")"));
  EXPECT_THAT(Get(watch.port(), "/ring.json?after_ns=x"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Get(watch.port(), "/history.json"), HasSubstr("\"history\":[["));
  EXPECT_THAT(Get(watch.port(), "/now"), HasSubstr("{\"now_ns\":"));
  EXPECT_THAT(Get(watch.port(), "/metrics"), HasSubstr("fusewire_calls_out_total 9\n"));
  EXPECT_THAT(Get(watch.port(), "/"), HasSubstr("<!doctype html>"));
  EXPECT_THAT(Get(watch.port(), "/etc/passwd"), StartsWith("HTTP/1.1 404 "));

  watch.RemoveTask("ps:0");
  watch.RemoveTask("worker:1");
  EXPECT_FALSE(watch.HasTask("ps:0"));
  EXPECT_TRUE(watch.HasTask("worker:0"));
  EXPECT_THAT(ReadFile(file), Not(HasSubstr("ps:0\",")));

  if (!kThreadSanitizer) ExpectChildHasItsOwn(watch, folder);  // it does not let a child create threads
  EXPECT_THAT(Get(watch.port(), "/healthz"), EndsWith("ok\n"));
  EXPECT_TRUE(fs::exists(file));
  EndOp(&op, true, 8);
  watch.RemoveTask("worker:0");  // the last one
  EXPECT_FALSE(fs::exists(file));
  watch.AddTask(TaskOf("worker:0"));
  EXPECT_TRUE(fs::exists(file));
  watch.Leave();
  EXPECT_FALSE(fs::exists(file));
  fs::remove_all(folder);
}

TEST(Watch, PlacesAreReadOrRefused) {
  const auto read = [](const std::string& text) { return ReadPlace(text, "secret").value(); };
  EXPECT_TRUE(read("").is_loopback && read("").port == 0);
  EXPECT_EQ(read("loopback").host, "127.0.0.1");
  EXPECT_TRUE(read("off").is_off);
  EXPECT_TRUE(read("127.0.0.1:9477").is_loopback && read("127.0.0.1:9477").port == 9477);
  EXPECT_FALSE(read("0.0.0.0:0").is_loopback);
  EXPECT_TRUE(read("[::1]:80").is_loopback && read("[::1]:80").host == "::1");
  EXPECT_FALSE(read("[fe80::1]:80").is_loopback);
  for (const char* text : {"on", "localhost:80", "1.2.3.4", "1.2.3.4:", "1.2.3.4:99999", "::1:80", "1.2.3.4:8x", ":80"})
    EXPECT_EQ(ReadPlace(text, "secret").status().code(), Code::kInvalid) << text;
}

TEST(Watch, BeyondLoopbackThereMustBeASecret) {
  EXPECT_EQ(ReadPlace("0.0.0.0:0", "").status().code(), Code::kRefused);
  EXPECT_TRUE(ReadPlace("127.0.0.1:0", "").ok());
  EXPECT_TRUE(ReadPlace("off", "").ok());
  EXPECT_EQ(Watch::Options(ReadPlace("0.0.0.0:0", "word").value(), "word", "").secret, "word");
  EXPECT_EQ(Watch::Options(ReadPlace("loopback", "word").value(), "word", "").secret, "");
}

}  // namespace
}  // namespace fusewire::observe
