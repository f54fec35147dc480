// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tasks of one machine share memory by themselves: what they hear when one of them dies, and what is left of it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "faults.h"

namespace fusewire::faults {
namespace {

class SharedMemory : public Faults {
 protected:
  static int Mappings() {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("/memfd:fusewire") != std::string::npos;
    return count;
  }
  static int Descriptors() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      count += entry.path().empty() ? 0 : 1;
    return count;
  }
};

TEST_F(SharedMemory, IsTheDefaultAndTcpCanBeChosen) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& client = ClientOf(peer.address());
  ASSERT_TRUE(Works(client));
  EXPECT_EQ(client.Snapshot().wire, "shm");
  task::TaskOptions options;
  options.wire = task::TransportChoice::kTcp;
  auto task = task::Task::Start(std::move(options));
  ASSERT_TRUE(task.ok());
  rpc::Client over_tcp(*task.value(), peer.address());
  ASSERT_TRUE(Works(over_tcp));
  EXPECT_EQ(over_tcp.Snapshot().wire, "tcp");
}

// Twice: what the first death has left behind would show in the second.
TEST_F(SharedMemory, AKillInMidTransferIsToldAtOnceAndLeavesNothing) {
  options_.pool.reactors = 1;
  int mappings = 0, descriptors = 0;
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    PeerProcess peer("name=ps:0");
    ASSERT_TRUE(peer.ready()) << peer.first_words();
    {
      rpc::Client client(task(), peer.address());
      ASSERT_TRUE(Works(client));
      EXPECT_EQ(client.Snapshot().wire, "shm");
      Calls calls;
      for (int i = 0; i < 8; ++i) {
        Buffers body;
        body.push_back(Buffer::TryAllocate(64 << 20));
        calls.Start(client, kSink, "", kForeverNs, std::move(body));
        calls.Start(client, kProduce, std::to_string(64 << 20));
      }
      ASSERT_TRUE(Eventually([&] {
        auto now = client.Snapshot();
        return now.bytes_out > (1 << 20) && now.bytes_in > (1 << 20);
      }));
      int64_t killed_ns = NowNs();
      peer.Kill();
      ASSERT_TRUE(calls.AllDone());
      EXPECT_LT(NowNs() - killed_ns, kToldNs);
      int broken = 0;
      for (const TimedCall& call : calls.all()) broken += call.status.code() == Code::kUnavailable;
      EXPECT_GT(broken, 0);
    }
    // The reactor's own doorbell stays: two mappings and three descriptors.
    if (round == 0) {
      mappings = Mappings();
      descriptors = Descriptors();
      EXPECT_EQ(mappings, 2);
    }
    EXPECT_EQ(Mappings(), mappings);
    EXPECT_EQ(Descriptors(), descriptors);
  }
}

// A forked child holds a copy of every descriptor, and none of the memory.
TEST_F(SharedMemory, AForkedChildDoesNotKeepAConnectionOpen) {
  PeerProcess peer("name=ps:0 reactors=1");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  pid_t child = -1;
  int end[2];
  ASSERT_EQ(::pipe(end), 0);
  {
    rpc::Client client(task(), peer.address());
    ASSERT_TRUE(Works(client));
    EXPECT_EQ(client.Snapshot().wire, "shm");
    child = fork();
    if (child == 0) {
      char byte;
      close(end[1]);
      (void)!read(end[0], &byte, 1);
      _exit(0);
    }
    ASSERT_TRUE(Works(client));
  }
  EXPECT_TRUE(Eventually([&] { return peer.AskNumbers("stats")["open"] == 0; }, kPatienceNs)) << peer.Ask("stats");
  close(end[0]);
  close(end[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
}

}  // namespace
}  // namespace fusewire::faults
