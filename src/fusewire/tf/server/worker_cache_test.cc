// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/worker_cache.h"

#include <memory>
#include <string>
#include <utility>

#include "fusewire/tf/peer/grpc_test.h"
#include "fusewire/tf/peer/world_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class WorkerCacheTest : public testing::Test {
 protected:
  WorkerCacheTest() : grpc_(std::make_shared<FakeCache>(kPeerTask)) {
    auto cluster = std::make_shared<Cluster>();
    cluster->grpc = grpc_;
    cluster->own_target = kOwnTask;
    cluster->addresses = {{kPeerTask, "ps:2222"}, {kOwnTask, "worker:2222"}};
    cluster_ = std::move(cluster);
  }

  DataWorld world_;
  const std::shared_ptr<FakeCache> grpc_;
  ClusterPtr cluster_;
  Directory directory_{world_.worker.get(), Directory::Options{0, 0, false, false, {{"mapped:2222", "ps:5555"}}, ""}};
};

TEST_F(WorkerCacheTest, OtherTasksHaveAWorkerOfOursAndOneOnly) {
  WorkerCache cache(cluster_, directory_);
  tensorflow::WorkerInterface* worker = cache.GetOrCreateWorker(kPeerTask);
  auto* ours = dynamic_cast<RemoteWorker*>(worker);
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(cache.GetOrCreateWorker(kPeerTask), worker);
  EXPECT_EQ(ours->ways().peer, directory_.Find(kPeerTask, "ps:2222"));
  cache.ReleaseWorker(kPeerTask, worker);
  EXPECT_EQ(cache.GetOrCreateWorker(kPeerTask), worker);
  EXPECT_EQ(grpc_->lent(), 1);  // the gRPC way beside it
  EXPECT_EQ(cache.GetOrCreateWorker("/job:ps/replica:0/task:9"), nullptr);
}

TEST_F(WorkerCacheTest, SessionsShareWhatIsKnownOfATask) {
  WorkerCache first(cluster_, directory_), second(cluster_, directory_);
  auto* of_first = dynamic_cast<RemoteWorker*>(first.GetOrCreateWorker(kPeerTask));
  auto* of_second = dynamic_cast<RemoteWorker*>(second.GetOrCreateWorker(kPeerTask));
  ASSERT_NE(of_first, nullptr);
  ASSERT_NE(of_second, nullptr);
  EXPECT_NE(of_first, of_second);
  EXPECT_EQ(of_first->ways().peer, of_second->ways().peer);
}

TEST_F(WorkerCacheTest, TheOwnTaskIsNotAPeer) {
  Ways ways;
  TfStatus found = FindTask(cluster_, directory_, kOwnTask, &ways);
  EXPECT_TRUE(absl::IsInternal(found)) << found;
  EXPECT_THAT(std::string(found.message()), HasSubstr(std::string("No worker known as ") + kOwnTask));
  EXPECT_TRUE(FindTask(cluster_, directory_, kPeerTask, &ways).ok());
}

TEST_F(WorkerCacheTest, TracesHaveTheTensorsOfOurWire) {
  WorkerCache cache(cluster_, directory_);
  auto* ours = dynamic_cast<RemoteWorker*>(cache.GetOrCreateWorker(kPeerTask));
  ASSERT_NE(ours, nullptr);
  tensorflow::StepStats stats;
  EXPECT_FALSE(cache.RetrieveLogs(kStep, &stats));
  cache.SetLogging(true);
  ours->ways().log->RecordRecvTensor(kStep, 10, 20, "tensor", kPeerTask, kOwnTask, 400);
  ASSERT_TRUE(cache.RetrieveLogs(kStep, &stats));
  EXPECT_GT(stats.dev_stats_size(), 0);
  cache.ClearLogs();
  EXPECT_FALSE(cache.RetrieveLogs(kStep, &stats));
}

TEST_F(WorkerCacheTest, ATaskAtAnotherAddressIsAnotherPeer) {
  EXPECT_EQ(directory_.Find(kPeerTask, "ps:2222"), directory_.Find(kPeerTask, "ps:2222"));
  EXPECT_NE(directory_.Find(kPeerTask, "ps:2222"), directory_.Find(kPeerTask, "ps:3333"));
}

TEST_F(WorkerCacheTest, AMappedTaskIsAskedWhichIncarnationItIs) {
  PeerPtr peer = directory_.Find(kPeerTask, "mapped:2222");
  ChannelPtr channel;
  peer->Route(std::make_shared<GrpcSide>(grpc_, kPeerTask), [&channel](const TfStatus& status, ChannelPtr found) {
    EXPECT_TRUE(status.ok()) << status;
    channel = std::move(found);
  });
  PortWords words;
  words.port = 6666;
  words.incarnation = 7;
  grpc_->worker().Answer(words);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(channel->address().ToString(), "ps:5555");
}

TEST(Clusters, NameTheirTasksByTheirFirstAddress) {
  tensorflow::ClusterDef cluster;
  tensorflow::JobDef* job = cluster.add_job();
  job->set_name("ps");
  (*job->mutable_tasks())[0] = "a:1";
  (*job->mutable_tasks())[7] = "b:2,c:3";
  EXPECT_THAT(AddressesOf(cluster),
              UnorderedElementsAre(Pair("/job:ps/replica:0/task:0", "a:1"), Pair("/job:ps/replica:0/task:7", "b:2")));
}

}  // namespace
}  // namespace fusewire::tf
